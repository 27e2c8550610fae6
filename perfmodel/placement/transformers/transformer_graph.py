"""Recognise a stack of equal transformer layers in a captured graph.

Every layer calls attention once, on queries of one shape; matrices that occur as often as layers
are theirs. The width is the extent that they all have in common. What four products of attention
leave over must be two or three matrices of one inner width. Tables are what embeddings read.

Stacks with mixtures of experts are recognised otherwise (:mod:`.mixture_graph`).

Left out, and answered with None: attention written out in single products, cross attention, layers
of several widths (Swin), one layer alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from perfmodel.graph.ir import Graph, Node
from perfmodel.placement.transformers.mixture_graph import mixture_shape, parameters_of
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Phase

_ATTENTION = ("scaled_dot_product_attention", "_scaled_dot_product")
#: Parameters that may stand outside of layers and tables: patches, classifiers, biases.
_MOST_BESIDE = 0.1

Matrix = tuple[int, int]


def graph_shape(graph: Graph) -> TransformerShape | None:
    """Return the dimensions of a graph's transformer; None where none is recognised.

    Parameters
    ----------
    graph : Graph
        Of a forward pass, or of a whole step of one micro-batch.
    """
    forward = [node for node in graph.nodes if node.phase is Phase.FORWARD]
    mixture = mixture_shape(graph)
    if mixture is not None:
        return mixture
    attention = _attention(graph, forward)
    if attention is None:
        return None
    tables = _tables(graph, forward)
    weights = _layer_weights(graph, attention.layers, tables)
    found = _widths(weights, attention)
    if found is None:
        return None
    width, inner, is_gated = found
    words = max((rows for rows, columns in tables if columns == width), default=1)
    positions = sum(rows for rows, columns in tables if columns == width) - words
    shape = TransformerShape(
        layers=attention.layers,
        hidden_size=width,
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_size=attention.head_size,
        ffn_size=inner,
        is_gated=is_gated,
        sequence_length=attention.tokens,
        vocabulary=words,
        position_count=max(positions, 0) if tables else 0,
        has_attention_biases=False,
        has_output_bias=False,
        has_ffn_biases=False,
        norm_vectors=0,
        has_head=_scores_words(graph, forward, words) if tables else False,
        is_tied=_count(graph, (words, width)) < 2,
    )
    return _completed(shape, graph.parameter_count)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attention:
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    tokens: int


def _attention(graph: Graph, forward: list[Node]) -> _Attention | None:
    calls = [graph.inputs_of(node)[:2] for node in forward if node.op.startswith(_ATTENTION)]
    shapes = {tuple(tensor.shape for tensor in pair) for pair in calls}
    if len(calls) < 2 or len(shapes) != 1:
        return None
    query, key = shapes.pop()
    if len(query) != 4 or len(key) != 4 or query[2] != key[2]:
        return None
    return _Attention(
        layers=len(calls),
        heads=query[1],
        kv_heads=key[1],
        head_size=query[3],
        tokens=query[2],
    )


def _tables(graph: Graph, forward: list[Node]) -> set[Matrix]:
    found = set()
    for node in forward:
        if node.op == "embedding" and len(graph.inputs_of(node)[0].shape) == 2:
            rows, columns = graph.inputs_of(node)[0].shape
            found.add((rows, columns))
    return found


def _layer_weights(graph: Graph, layers: int, tables: set[Matrix]) -> Counter[Matrix]:
    """Return the matrices of one layer, and how often each occurs in it."""
    counts: Counter[Matrix] = Counter()
    for tensor in parameters_of(graph):
        if len(tensor.shape) == 2 and tensor.shape not in tables:
            counts[(tensor.shape[0], tensor.shape[1])] += 1
    # What is left over stands beside the layers: a matrix before the scores, a classifier.
    return Counter({m: n // layers for m, n in counts.items() if n >= layers})


def _widths(weights: Counter[Matrix], attention: _Attention) -> tuple[int, int, bool] | None:
    """Return width, inner width and whether a gate multiplies, where the matrices add up."""
    if not weights:
        return None
    common = set.intersection(*(set(matrix) for matrix in weights))
    elements = sum(rows * columns * count for (rows, columns), count in weights.items())
    features = attention.head_size * (attention.heads + attention.kv_heads)
    extents = {extent for matrix in weights for extent in matrix}
    for width in sorted(common, reverse=True):
        left = elements - 2 * width * features
        for inner in sorted(extents, reverse=True):
            for matrices in (2, 3):
                if left == matrices * width * inner:
                    return width, inner, matrices == 3
    return None


def _scores_words(graph: Graph, forward: list[Node], words: int) -> bool:
    outputs = (tensor for node in forward for tensor in graph.outputs_of(node))
    return any(len(tensor.shape) >= 2 and tensor.shape[-1] == words for tensor in outputs)


def _count(graph: Graph, matrix: Matrix) -> int:
    return sum(tensor.shape == matrix for tensor in parameters_of(graph))


def _completed(shape: TransformerShape, parameters: int) -> TransformerShape | None:
    """Return the shape with the parameters that it does not name; None where they are many."""
    beside = parameters - shape.parameter_count
    if not 0 <= beside <= _MOST_BESIDE * parameters:
        return None
    values = {name: getattr(shape, name) for name in shape.__slots__}
    return TransformerShape(**{**values, "other_parameters": beside})
