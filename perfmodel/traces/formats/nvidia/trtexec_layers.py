"""Layers of a TensorRT engine as operators: ``trtexec --exportLayerInfo``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.argument_table import ArgumentTable
from perfmodel.traces.formats.json_sections import json_sections
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import OperatorArguments, TracedInput, TracedTensor

#: Words in descriptions of formats, such as ``"Channel major FP16 format where ..."``.
_DTYPES: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16",
        "bf16": "bfloat16", "bfloat16": "bfloat16", "fp8": "float8_e4m3fn", "int8": "int8",
        "int4": "int4", "int32": "int32", "int64": "int64", "bool": "bool", "uint8": "uint8",
    }
)  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+\d*")


def add_layers(builder: TraceBuilder, path: Path, limits: TraceLimits) -> Mapping[str, int]:
    """Add the layers of an engine in their order and return their rows by name.

    Raises
    ------
    InvalidTraceError
        The file is damaged.
    """
    rows: dict[str, int] = {}
    table = ArgumentTable(builder)
    pieces = unpacked(path, limits)
    for _, _, layers in json_sections(pieces, [("Layers",)], name=path.name, limits=limits):
        for number, layer in enumerate(layers, start=len(rows)):
            # Without --profilingVerbosity=detailed a layer is its name alone.
            facts = layer if isinstance(layer, dict) else {"Name": layer}
            rows[str(facts.get("Name", ""))] = builder.add_operator(
                str(facts.get("ParameterType") or facts.get("LayerType") or facts.get("Name")),
                arguments=table.position(number, partial(_arguments, facts)),
            )
    table.note()
    return MappingProxyType(rows)


def _arguments(layer: Mapping[str, Any]) -> OperatorArguments:
    inputs = [TracedInput(tensors=(tensor,)) for tensor in _tensors(layer.get("Inputs"))]
    weight = _weight(layer, inputs)
    return OperatorArguments(
        inputs=(*inputs, *((TracedInput(tensors=(weight,)),) if weight else ())),
        outputs=tuple(_tensors(layer.get("Outputs"))),
    )


def _tensors(listed: Any) -> list[TracedTensor]:
    found = []
    for tensor in listed if isinstance(listed, list) else ():
        shape = _extents(tensor.get("Dimensions")) if isinstance(tensor, dict) else None
        if shape is not None:
            found.append(TracedTensor(shape=shape, dtype=_dtype(tensor.get("Format/Datatype"))))
    return found


def _weight(layer: Mapping[str, Any], inputs: Sequence[TracedInput]) -> TracedTensor | None:
    """Return the weight of a convolution, which the engine holds and does not list as an input."""
    kernel, maps, groups = (layer.get(key) for key in ("Kernel", "OutMaps", "Groups"))
    extents, weights = _extents(kernel), layer.get("Weights")
    if not inputs or not extents or type(maps) is not int or type(groups) is not int or groups < 1:
        return None
    shape = inputs[0].tensors[0].shape
    if len(shape) < 2 or not isinstance(weights, dict):
        return None
    return TracedTensor(
        shape=(maps, shape[1] // groups, *extents), dtype=_dtype(weights.get("Type"))
    )


def _extents(listed: Any) -> tuple[int, ...] | None:
    if not isinstance(listed, list) or len(listed) > 16:
        return None
    if all(type(extent) is int and 0 <= extent < 2**62 for extent in listed):
        return tuple(listed)
    return None


def _dtype(text: Any) -> str:
    words = _WORD.findall(text) if isinstance(text, str) and len(text) < 1_000 else []
    return next((_DTYPES[word.lower()] for word in words if word.lower() in _DTYPES), "")
