"""Kernels of an ONNX engine joined to the nodes of the file, through the names of the nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfmodel.capture.onnx import onnx_node_name
from perfmodel.errors import MissingExtraError
from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.joined import JoinedOperators, joined_over_steps

#: Nodes back to the one whose work a fused one does.
_MOST_UPSTREAM = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelTime:
    """One kernel of one run.

    Parameters
    ----------
    name : str
        Node name in the optimised graph.
    op_type : str
        ONNX operator that ran, or one of ORT's own.
    """

    name: str
    op_type: str
    time_s: float


@dataclass(frozen=True, kw_only=True)
class OnnxNames:
    """How the nodes of a file are called, and what produces what.

    Parameters
    ----------
    op_types : mapping of str to str
        Operator of each node by node name.
    producers : mapping of str to str
        Node name by the name of each tensor it writes.
    first_input : mapping of str to str
        Name of the first tensor that a node reads.
    """

    op_types: Mapping[str, str]
    producers: Mapping[str, str]
    first_input: Mapping[str, str] = field(default_factory=dict)


def join_kernels(
    graph: Graph, runs: Sequence[Sequence[KernelTime]], names: OnnxNames
) -> JoinedOperators:
    """Join kernel times to the nodes of a graph, through the names of the ONNX nodes.

    Parameters
    ----------
    graph : Graph
        Captured from the same file.
    """
    position = _main_nodes(graph)
    return joined_over_steps(
        graph,
        (_joined_run(kernels, position, names) for kernels in runs),
        totals_s=[sum(kernel.time_s for kernel in kernels) for kernels in runs],
    )


def _joined_run(
    kernels: Iterable[KernelTime], position: Mapping[str, int], names: OnnxNames
) -> tuple[dict[int, float], dict[str, float]]:
    node_s: dict[int, float] = {}
    lost_s: dict[str, float] = {}
    for kernel in kernels:
        node = position.get(original_node(kernel, names) or "")
        if node is None:
            lost_s[kernel.op_type] = lost_s.get(kernel.op_type, 0.0) + kernel.time_s
        else:
            node_s[node] = node_s.get(node, 0.0) + kernel.time_s
    return node_s, lost_s


def original_node(kernel: KernelTime, names: OnnxNames) -> str | None:
    """Return the node of the file that a kernel stands for; None where its name tells nothing.

    ORT calls a fused node after one of its parts: by the part's name, by that name and a
    suffix, or (in the blocked layout) by the tensor that it writes. In the last case the part
    of the same operator lies a few steps upstream: a convolution is named after the activation
    behind it.

    Examples
    --------
    >>> names = OnnxNames(op_types={"c": "Conv", "r": "Relu"},
    ...                   producers={"c_out": "c", "r_out": "r"}, first_input={"r": "c_out"})
    >>> original_node(KernelTime(name="r_out_nchwc", op_type="Conv", time_s=1.0), names)
    'c'
    """
    if kernel.name in names.op_types:
        return kernel.name
    written = names.producers.get(re.sub(r"_nchwc$", "", kernel.name))
    if written is not None:
        return _upstream(written, kernel.op_type, names)
    parts = kernel.name.split("/")
    for count in range(len(parts) - 1, 0, -1):
        if (prefix := "/".join(parts[:count])) in names.op_types:
            return prefix
    return None


def read_names(file: bytes) -> OnnxNames:
    """Return the node names of an ONNX file.

    Raises
    ------
    MissingExtraError
        onnx is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("Reading ONNX node names", extra="onnx") from error
    nodes = onnx.load_from_string(file).graph.node
    return OnnxNames(
        op_types={node.name: node.op_type for node in nodes},
        producers={output: node.name for node in nodes for output in node.output},
        first_input={node.name: node.input[0] for node in nodes if node.input},
    )


def _upstream(node: str, op_type: str, names: OnnxNames) -> str:
    current: str | None = node
    for _ in range(_MOST_UPSTREAM):
        if current is None:
            break
        if names.op_types[current] == op_type:
            return current
        current = names.producers.get(names.first_input.get(current, ""))
    return node


def _main_nodes(graph: Graph) -> dict[str, int]:
    """Return for each ONNX name the node that does its work: the unmarked one, else the first."""
    positions: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        name = onnx_node_name(node.name)
        if name == node.name or name not in positions:
            positions[name] = position
    return positions
