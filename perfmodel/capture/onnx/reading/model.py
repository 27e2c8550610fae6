"""The parts of an ONNX file as frozen values: what is left once weights are set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

#: A dimension as a file states it: an extent, a symbol, or nothing.
Dim = int | str | None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OnnxTensor:
    """A tensor stored in the file, by shape; values only where they are few.

    Parameters
    ----------
    dtype : str
        PyTorch name.
    values : numpy.ndarray or None
        The elements, where there are few enough for shape arithmetic.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: np.ndarray | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttributeReference:
    """An attribute of a function body that takes its value from the call."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OnnxNode:
    """One operator call of the file.

    Parameters
    ----------
    op, domain : str
        Operator and operator-set domain (``""`` for the standard one).
    overload : str
        Which function of several equal names.
    name : str
        As in the file, or ``"<op>_<position>"`` where the file gives none, as ONNX Runtime
        names such nodes in its profiles.
    inputs, outputs : tuple of str
        Names; ``""`` for an optional one that is left out.
    """

    op: str
    domain: str
    overload: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxValueInfo:
    """A declared type: dtype and dimensions, each None where the file is silent."""

    name: str
    dtype: str | None
    dims: tuple[Dim, ...] | None
    is_tensor: bool = True


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OnnxGraph:
    """A graph or subgraph: nodes in an order in which they can run."""

    name: str
    nodes: tuple[OnnxNode, ...]
    initializers: Mapping[str, OnnxTensor]
    inputs: tuple[OnnxValueInfo, ...]
    outputs: tuple[OnnxValueInfo, ...]
    value_info: Mapping[str, OnnxValueInfo]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OnnxFunction:
    """A function of the file: operators behind one name."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, object]
    nodes: tuple[OnnxNode, ...]
    opsets: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OnnxModel:
    """A whole file."""

    graph: OnnxGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], OnnxFunction]
    producer: str
