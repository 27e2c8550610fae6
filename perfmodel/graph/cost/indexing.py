"""Gather, scatter, embedding, sort: bytes of the rows that are touched, not of whole tables."""

from __future__ import annotations

import math

from perfmodel.graph.cost.base import Attrs, Cost, OpClass, Tensors, bytes_of, register, streamed


@register("embedding", "index", "index_select", "gather", "take", "masked_select", "_unsafe_index",
          "take_along_dim", op_class=OpClass.INDEXING)  # fmt: skip
def gathered(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a gather: it reads the indices and as many bytes as it writes."""
    written = bytes_of(outputs)
    return Cost(0.0, float(written + bytes_of(inputs[1:])), float(written))


@register("embedding_dense_backward", "embedding_backward", op_class=OpClass.INDEXING)
def embedding_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a dense gradient of a table: zeros written in full, gradients added into rows."""
    return streamed(inputs[0].element_count, inputs, outputs)


@register("_embedding_bag", "_embedding_bag_forward_only", op_class=OpClass.INDEXING)
def embedding_bag(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price sums over bags of rows: each named row of the table is read and added."""
    table, indices, summed = inputs[0], inputs[1], outputs[0]
    read = indices.element_count * table.shape[1]
    element_bytes = table.size_bytes / max(1, table.element_count)
    return Cost(float(read), read * element_bytes + bytes_of(inputs[1:]), float(summed.size_bytes))


@register("_embedding_bag_backward", "_embedding_bag_dense_backward", op_class=OpClass.INDEXING)
def embedding_bag_backward(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a dense gradient of a table: zeros in full, the gradient of its bag into each row."""
    added = inputs[1].element_count * inputs[0].shape[-1]
    return streamed(added, inputs, outputs)


@register("index_put", "_index_put_impl", "_unsafe_index_put", op_class=OpClass.INDEXING)
def index_put(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price writing values at indices; only the rows named are touched."""
    values = inputs[-1]
    accumulates = bool(attrs.get("accumulate"))
    touched = max(values.size_bytes, _values_bytes(inputs))
    flops = values.element_count if accumulates else 0
    read = bytes_of(inputs[1:]) + (touched if accumulates else 0)
    return Cost(float(flops), float(read), float(touched))


def _values_bytes(inputs: Tensors) -> float:
    """Bytes that a broadcast scalar fills: one element per index."""
    indices = max((t.element_count for t in inputs[1:-1] if t.dtype != "bool"), default=0)
    return indices * inputs[0].size_bytes / max(1, inputs[0].element_count)


@register("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill",
          "index_reduce", "masked_scatter", "put", op_class=OpClass.INDEXING)  # fmt: skip
def scattered(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a scatter into a copy of the first input: it all is read and written."""
    source = inputs[-1]
    return streamed(source.element_count, inputs, outputs)


@register("sort", "argsort", "msort", "topk", "kthvalue", "_unique2", "unique_dim",
          "unique_consecutive", op_class=OpClass.INDEXING)  # fmt: skip
def sorted_elements(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a sort of rows: ``n log2 n`` comparisons for n elements of a row."""
    count = inputs[0].element_count
    row = max(2, inputs[0].shape[-1] if inputs[0].shape else 2)
    return streamed(count * math.log2(row), inputs, outputs)


@register("nonzero", "one_hot", "bincount", "histc", "searchsorted", "bucketize", "isin",
          "nonzero_static", "multinomial", "argwhere", op_class=OpClass.INDEXING)  # fmt: skip
def scanned(inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Cost:
    """Price a scan: one comparison per element read."""
    return streamed(inputs[0].element_count, inputs, outputs)
