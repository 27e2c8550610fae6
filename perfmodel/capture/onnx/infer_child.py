"""Child process: onnx's shape inference of one operator per line of JSON.

Not imported by the package; run as ``python -m perfmodel.capture.onnx.infer_child``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import resource
import sys
from typing import Any

_MEMORY_BYTES = 1024**3
_CPU_S = 4


def main() -> None:
    """Say that onnx is there, then answer questions until the input ends."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    importlib.import_module("onnx.shape_inference")
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = _infer(json.loads(line))
        except Exception:  # whatever onnx dislikes, the answer is that it does not know
            answer = []
        print(json.dumps(answer), flush=True)


def _infer(question: dict[str, Any]) -> list[Any]:
    import onnx
    from onnx import helper, shape_inference

    schema = onnx.defs.get_schema(question["op"], question["opset"], question["domain"])
    names = [f"i{p}" if i else "" for p, i in enumerate(question["inputs"])]
    outputs = [f"o{p}" for p in range(question["outputs"])]
    node = helper.make_node(
        question["op"], names, outputs, domain=question["domain"], **question["attrs"]
    )
    types, data = {}, {}
    for name, entry in zip(names, question["inputs"], strict=True):
        if entry:
            types[name] = helper.make_tensor_type_proto(entry["type"], entry["shape"])
            if entry["values"] is not None:
                data[name] = helper.make_tensor(
                    name, entry["type"], entry["shape"], entry["values"]
                )
    inferred = shape_inference.infer_node_outputs(
        schema,
        node,
        types,
        data,
        opset_imports=[helper.make_opsetid(question["domain"], question["opset"])],
    )
    return [_plain(inferred[name]) if name in inferred else None for name in outputs]


def _plain(kind: Any) -> Any:
    tensor = kind.tensor_type
    if not kind.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
    return [tensor.elem_type, dims]


if __name__ == "__main__":
    main()
