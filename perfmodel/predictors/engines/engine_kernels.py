"""What is left of a graph in a tuned inference engine: its kernels, with work and elements.

Four rewritings, as engines publish them:

* views and constants are gone, casts of weights among them, and a normalisation that follows a
  convolution is folded into it;
* activations, additions, casts and other elementwise work join the kernel that wrote the latest
  of their operands (for products: its epilogue), so that only what leaves a kernel is traffic;
* the softmax between two batched products joins them: fused attention;
* what is left is counted in elements, not bytes: how wide one is, the engine chooses. Of a table no
  more is read than its operator moves: the rows that are looked up.

Left out: horizontal fusion of products that read one tensor, and formats padded to vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray, IntArray
from perfmodel.features.nodes import OP_CLASSES, NodeTable, node_table
from perfmodel.graph.cost.base import PRODUCTS, OpClass
from perfmodel.graph.ir import Graph
from perfmodel.types import Role

_CODE = {op_class: code for code, op_class in enumerate(OP_CLASSES)}
_PRODUCTS = frozenset(_CODE[c] for c in PRODUCTS)
_JOINING = frozenset(_CODE[c] for c in (OpClass.ELEMENTWISE, OpClass.MOVEMENT))
_CONVOLUTION, _NORMALIZATION, _SOFTMAX, _MATMUL, _CREATION = (
    _CODE[c]
    for c in (
        OpClass.CONVOLUTION, OpClass.NORMALIZATION, OpClass.SOFTMAX, OpClass.MATMUL,
        OpClass.CREATION,
    )
)  # fmt: skip
#: Movements that gather several tensors into one, or lay one out anew, are kernels of their own.
_KEPT_MOVEMENTS = frozenset({"cat", "stack", "index_put", "constant_pad_nd", "roll", "flip"})
#: Kinds of operators that no measured engine had.
_NOT_FITTED = [
    _CODE[c] for c in (OpClass.RECURRENT, OpClass.RESAMPLING, OpClass.OPTIMIZER, OpClass.OTHER)
]
#: What is the same in every step of inference.
_FIXED = frozenset({Role.PARAMETER, Role.BUFFER, Role.CONSTANT})
#: Under which name they lie with their graph.
_KEPT = "_engine_kernels"


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineKernels:
    """The kernels that an engine runs for one step, one entry each.

    Parameters
    ----------
    flops : ndarray, shape (kernels,)
        Of matrix work; what joins a kernel is hidden behind its traffic.
    elements : ndarray, shape (kernels,)
        Read from other kernels or from outside, and written for them.
    given : ndarray, shape (kernels,)
        Those of them that no kernel writes: weights, inputs, kept keys and values.
    is_convolution : ndarray of bool, shape (kernels,)
        Whether matrix units do the work as a convolution.
    is_known : bool
        Whether every operator has a cost formula and is of a kind that the law was fitted on.
    """

    flops: FloatArray
    elements: FloatArray
    given: FloatArray
    is_convolution: BoolArray
    is_known: bool


def engine_kernels(graph: Graph) -> EngineKernels:
    """Return the kernels of the forward pass of a graph; computed once and kept with it."""
    kept = graph.__dict__.get(_KEPT)
    if isinstance(kept, EngineKernels):
        return kept
    found = _rewritten(graph, node_table(graph))
    graph.__dict__[_KEPT] = found
    return found


def _rewritten(graph: Graph, table: NodeTable) -> EngineKernels:
    classes = np.asarray(table.cost.op_class, dtype=np.int64)
    kernel = kernel_of_nodes(graph, table, classes.tolist())
    count = len(classes)
    read, given, written = _crossing(graph, table, kernel, count)
    flops = np.where(np.isin(classes, list(_PRODUCTS)), table.cost.flops, 0.0)
    runs = kernel >= 0
    work = np.bincount(kernel[runs], weights=flops[runs], minlength=count).astype(np.float64)
    heads = np.unique(kernel[runs])
    return EngineKernels(
        flops=work[heads],
        elements=(read + written)[heads],
        given=given[heads],
        is_convolution=classes[heads] == _CONVOLUTION,
        is_known=_is_known(table, classes),
    )


def _is_known(table: NodeTable, classes: IntArray) -> bool:
    plain = ~np.isin(classes, _NOT_FITTED) & (table.column("log_groups") <= 1.0)
    return bool(np.all((plain & np.asarray(table.cost.priced)) | table.is_view))


def kernel_of_nodes(graph: Graph, table: NodeTable, classes: list[int]) -> IntArray:
    """Return the kernel of every node, named by its first node; -1 where nothing is run.

    What is not run: views, and what an engine works out of weights alone when it is built.
    """
    count, flow = table.node_count, table.flow
    fixed = {tensor.storage for tensor in graph.tensors if tensor.role in _FIXED}
    writers: list[list[int]] = [[] for _ in range(count)]
    reads_input = [False] * count
    for node, tensor, writer in zip(
        flow.in_node.tolist(), flow.in_tensor.tolist(), flow.in_writer.tolist(), strict=True
    ):
        writers[node].append(writer)
        reads_input[node] |= writer < 0 and graph.tensors[tensor].storage not in fixed
    is_view = table.is_view.tolist()
    kernel = [-1] * count
    for node, written_by in enumerate(writers):
        running = [writer for writer in written_by if writer >= 0 and kernel[writer] >= 0]
        is_constant = classes[node] in _JOINING and not running and not reads_input[node]
        if is_view[node] or classes[node] == _CREATION or is_constant:
            continue
        writer = max(running, default=-1)
        joins = writer >= 0 and _joins(
            table.ops[node], classes[node], classes[kernel[writer]], classes[writer]
        )
        kernel[node] = kernel[writer] if joins else node
    return np.array(kernel, dtype=np.int64)


def _joins(op: str, own: int, head: int, writer: int) -> bool:
    """Tell whether a node joins the kernel that wrote its latest operand."""
    if own in _JOINING:
        return op not in _KEPT_MOVEMENTS
    if own == _NORMALIZATION:
        return head == _CONVOLUTION
    if own == _SOFTMAX:
        return head == _MATMUL
    return own == _MATMUL and head == _MATMUL and writer == _SOFTMAX


def _crossing(
    graph: Graph, table: NodeTable, kernel: IntArray, count: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the elements that every kernel reads from outside it and writes for others.

    Returns
    -------
    read, given, written : ndarray, shape (nodes,)
        All that it reads, what no kernel wrote of that, and what it writes.
    """
    flow = table.flow
    size = np.array([float(tensor.element_count) for tensor in graph.tensors])
    storage = np.array([tensor.storage for tensor in graph.tensors], dtype=np.int64)
    written = flow.in_writer >= 0
    source = np.where(written, kernel[np.maximum(flow.in_writer, 0)], -2)
    reader = kernel[flow.in_node]
    outside = (reader >= 0) & (source != reader)
    # A storage that several nodes of a kernel read is fetched once.
    pair = np.stack([reader[outside], storage[flow.in_tensor[outside]]])
    read_size = _read_elements(graph, table, size)[outside]
    read = _largest_of_pairs(pair, read_size, count)
    given = source[outside] < 0
    of_given = _largest_of_pairs(pair[:, given], read_size[given], count)
    leaving = np.zeros(count, dtype=np.bool_)
    leaving[flow.in_writer[written & outside]] = True
    read_at_all = np.zeros(count, dtype=np.bool_)
    # Views run nothing: who reads behind them is listed itself.
    read_at_all[flow.in_writer[written & (reader >= 0)]] = True
    out = (leaving | ~read_at_all)[flow.out_node] & (kernel[flow.out_node] >= 0)
    pair = np.stack([kernel[flow.out_node[out]], storage[flow.out_tensor[out]]])
    return read, of_given, _largest_of_pairs(pair, size[flow.out_tensor[out]], count)


def _read_elements(graph: Graph, table: NodeTable, size: FloatArray) -> FloatArray:
    """Return how many elements of each operand its node reads, one entry per operand."""
    flow, node, tensor = table.flow, table.flow.in_node, table.flow.in_tensor
    written = np.bincount(
        flow.out_node, weights=table.size_bytes[flow.out_tensor], minlength=table.node_count
    )
    read_bytes = np.maximum(table.traffic_bytes - written, 0.0)[node]
    width = table.size_bytes[tensor] / np.maximum(size[tensor], 1.0)
    return np.minimum(size[tensor], read_bytes / np.maximum(width, 1e-9))


def _largest_of_pairs(pair: IntArray, size: FloatArray, count: int) -> FloatArray:
    """Sum over storages of the largest size under which each kernel meets it."""
    both, place = np.unique(pair, axis=1, return_inverse=True)
    largest = np.zeros(both.shape[1])
    np.maximum.at(largest, place.reshape(-1), size)
    return np.asarray(np.bincount(both[0], weights=largest, minlength=count), dtype=np.float64)
