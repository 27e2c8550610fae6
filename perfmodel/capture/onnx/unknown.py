"""Operators for which there is no rule: their shapes, from the file or from onnx.

onnx's own shape inference is native code that an uploaded file must not reach in this
process, so one operator at a time is asked of a child with bounded memory and time.
"""

from __future__ import annotations

import importlib.util
import json
import selectors
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call
from perfmodel.capture.onnx.dtypes import DTYPE_OF_ONNX, ONNX_OF_DTYPE
from perfmodel.capture.onnx.reading.bind import Binding
from perfmodel.capture.onnx.reading.model import OnnxValueInfo
from perfmodel.child_modules import module_command, module_environment
from perfmodel.errors import MissingExtraError
from perfmodel.graph.ir import AttrValue

#: Seconds that all questions about one file may take together, and that the child may take to
#: import onnx before the first.
_TIME_LIMIT_S = 1.5
_START_S = 10.0
_CHILD = "perfmodel.capture.onnx.infer_child"

Spec = tuple[tuple[int, ...], str]


class ShapeOracle:
    """Asks a child process for the result types of single operators; started when needed.

    Use it as a context manager: leaving it ends the child.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0

    def __enter__(self) -> ShapeOracle:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()

    def ask(self, call: Call) -> list[Spec | None]:
        """Return shape and dtype of each output; None where onnx cannot tell.

        Raises
        ------
        MissingExtraError
            onnx is not installed.
        """
        question = _question(call)
        if question is None:
            return []
        answer = self._exchange(json.dumps(question).encode() + b"\n")
        return [_spec(a) for a in answer]

    def _exchange(self, line: bytes) -> list[Any]:
        child = self._start()
        if child is None or child.stdin is None:
            return []
        try:
            child.stdin.write(line)
            child.stdin.flush()
        except BrokenPipeError:
            return []
        answer = _line(child, self._deadline)
        return list(json.loads(answer)) if answer.endswith(b"\n") else []

    def _start(self) -> subprocess.Popen[bytes] | None:
        if self._child is None:
            if importlib.util.find_spec("onnx") is None:
                raise MissingExtraError("Shape inference of untranslated operators", extra="onnx")
            self._child = subprocess.Popen(
                module_command(_CHILD),
                env=module_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            _line(self._child, time.monotonic() + _START_S)
            self._deadline = time.monotonic() + _TIME_LIMIT_S
        return self._child if self._child.poll() is None else None


def _line(child: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read a line, or end the child at the deadline and return nothing."""
    if child.stdout is None:
        return b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            child.kill()
            return b""
    return child.stdout.readline()


def unknown_operator(
    call: Call, declared: Mapping[str, OnnxValueInfo], binding: Binding, oracle: ShapeOracle
) -> list[Value | None]:
    """Write an operator without a rule as the unpriced node ``onnx::<name>``.

    Parameters
    ----------
    declared : mapping of str to OnnxValueInfo
        Types that the file states; believed where they are complete.

    Raises
    ------
    UnsupportedOnnxError
        Nobody knows the shape of a result.
    """
    outputs = call.node.outputs
    specs = [_declared(name, declared, binding) if name else None for name in outputs]
    if any(name and spec is None for name, spec in zip(outputs, specs, strict=True)):
        asked = oracle.ask(call)
        asked += [None] * (len(outputs) - len(asked))
        specs = [spec or answer for spec, answer in zip(specs, asked, strict=True)]
    unresolved = [n for n, s in zip(outputs, specs, strict=True) if n and s is None]
    if unresolved:
        raise call.error(
            f"is not translated, and the shape of {', '.join(map(repr, unresolved))} is not "
            f"known (domain {call.node.domain or 'ai.onnx'!r}, opset {call.opset}). Save the "
            "file with shape information (onnx.shape_inference.infer_shapes) and bind its "
            "symbols"
        )
    present = [spec for spec in specs if spec is not None]
    domain = f"{call.node.domain}::" if call.node.domain else ""
    op = f"onnx::{domain}{call.node.op}"
    values = iter(call.emit_many(op, call.inputs, present, carried=_plain_attrs(call)))
    return [next(values) if spec is not None else None for spec in specs]


def _declared(name: str, declared: Mapping[str, OnnxValueInfo], binding: Binding) -> Spec | None:
    info = declared.get(name)
    if info is None or info.dtype is None:
        return None
    shape = binding.shape(info)
    return None if shape is None else (shape, info.dtype)


def _plain_attrs(call: Call) -> dict[str, AttrValue]:
    plain: dict[str, AttrValue] = {}
    for name, value in call.attrs.items():
        scalars = value if isinstance(value, tuple) else (value,)
        if all(isinstance(v, int | float | str) for v in scalars):
            plain[name] = value  # type: ignore[assignment]
    return plain


def _question(call: Call) -> dict[str, Any] | None:
    if any(v is not None and v.items is not None for v in call.inputs):
        return None
    inputs = [
        None
        if v is None
        else {
            "type": ONNX_OF_DTYPE[v.dtype],
            "shape": list(v.shape),
            "values": v.known.reshape(-1).tolist()
            if v.known is not None and v.known.dtype.kind == "i"
            else None,
        }
        for v in call.inputs
    ]
    return {
        "op": call.node.op,
        "domain": call.node.domain,
        "opset": call.opset,
        "outputs": len(call.node.outputs),
        "inputs": inputs,
        "attrs": _plain_attrs(call),
    }


def _spec(answer: Any) -> Spec | None:
    if answer is None:
        return None
    number, shape = answer
    dtype = DTYPE_OF_ONNX.get(number)
    if dtype is None or any(not isinstance(e, int) or e < 0 for e in shape):
        return None
    return tuple(shape), dtype
