"""Recognise a stack of equal transformer layers in a captured graph.

Every layer calls attention once, on queries of one shape; matrices that occur as often as layers
are theirs. The width is the extent that they all have in common. What four products of attention
leave over must be two or three matrices of one inner width. Tables are what embeddings read.

Layers may have mixtures of experts: parameters of three extents, the first of which counts them,
that products of the forward pass read. Modules of the same list are layers; those in which experts
are read have a mixture, others need not. What the parameters leave over beside experts, tables and
output belongs to what every token passes: attention of whatever kind, experts that all tokens
share, and networks of layers without a mixture, each layer with the mean of it.

Left out, and answered with None: attention written out in single products, cross attention, layers
of several widths (Swin), one layer alone, experts that are modules of their own, models of two
stacks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Phase, Role

_PRODUCTS = ("_grouped_mm", "bmm", "baddbmm")
_ATTENTION = ("scaled_dot_product_attention", "_scaled_dot_product")
#: Parameters that may stand outside of layers and tables: patches, classifiers, biases.
_MOST_BESIDE = 0.1
_LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")

Matrix = tuple[int, int]


def graph_shape(graph: Graph) -> TransformerShape | None:
    """Return the dimensions of a graph's transformer; None where none is recognised.

    Parameters
    ----------
    graph : Graph
        Of a forward pass, or of a whole step of one micro-batch.
    """
    forward = [node for node in graph.nodes if node.phase is Phase.FORWARD]
    tables = _tables(graph, forward)
    mixture = _mixture_shape(graph, forward, tables)
    if mixture is not None:
        return mixture
    attention = _attention(graph, forward)
    if attention is None:
        return None
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Experts:
    count: int
    per_token: int
    layers: int
    mixture_layers: int
    inner: int
    is_gated: bool
    elements: int


def _mixture_shape(
    graph: Graph, forward: list[Node], tables: set[Matrix]
) -> TransformerShape | None:
    """Return the dimensions of a transformer whose layers have experts; None without."""
    calls = Counter(
        (query.shape, key.shape)
        for node in forward
        if node.op.startswith(_ATTENTION)
        for query, key in [graph.inputs_of(node)[:2]]
        if len(query.shape) == len(key.shape) == 4
    )
    if not tables or not calls:
        return None
    words, width = table = max(tables)
    (batch, heads, tokens, head_size), (_, kv_heads, *_) = calls.most_common(1)[0][0]
    experts = _experts(graph, forward, width, batch * tokens)
    if experts is None:
        return None
    matrices = _count(graph, table)
    left = graph.parameter_count - matrices * words * width - experts.elements - width
    router = width * experts.count * experts.mixture_layers
    own = (left - router) // experts.layers - 2 * width
    if own < 1:
        return None
    shape = TransformerShape(
        layers=experts.layers,
        hidden_size=width,
        heads=heads,
        # Keys that were repeated for each query are those of all heads.
        kv_heads=kv_heads if heads % kv_heads == 0 else heads,
        head_size=head_size,
        ffn_size=experts.inner,
        is_gated=experts.is_gated,
        experts=experts.count,
        experts_per_token=experts.per_token,
        mixture_layers=experts.mixture_layers,
        sequence_length=tokens,
        vocabulary=words,
        has_attention_biases=False,
        has_output_bias=False,
        has_ffn_biases=False,
        norm_vectors=1,
        has_head=_scores_words(graph, forward, words),
        is_tied=matrices < 2,
        own_weights=own,
    )
    beside = graph.parameter_count - shape.parameter_count
    return replace(shape, other_parameters=max(beside, 0))


def _experts(graph: Graph, forward: list[Node], width: int, tokens: int) -> _Experts | None:
    read = [
        (node, rows, matrices)
        for node in forward
        if node.op in _PRODUCTS
        for rows, matrices in [graph.inputs_of(node)[:2]]
        if matrices.role is Role.PARAMETER and len(matrices.shape) == 3
    ]
    if not read:
        return None
    count = Counter(matrices.shape[0] for *_, matrices in read).most_common(1)[0][0]
    read = [one for one in read if one[2].shape[0] == count and width in one[2].shape[1:]]
    places = [(node.name, place) for node, *_ in read if (place := _LAYER.search(node.name))]
    if count < 2 or not places:
        return None
    before = min(name[: place.start(1)] for name, place in places)
    layers = _indices(forward, before)
    with_experts = _indices([node for node, *_ in read], before)
    held = {matrices.storage: matrices.element_count for *_, matrices in read}
    each = [size // count for size in held.values()]
    rows = max(one.element_count // one.shape[-1] for _, one, _ in read)
    inner = min(each) // width
    whole = sum(each) // len(with_experts)
    if inner * width * 2 > whole:
        return None
    return _Experts(
        count=count,
        per_token=max(1, min(count, round(rows / tokens))),
        layers=len(layers),
        mixture_layers=len(with_experts),
        inner=inner,
        is_gated=whole == 3 * inner * width,
        elements=sum(held.values()),
    )


def _indices(nodes: list[Node], before: str) -> set[str]:
    """Return the places of modules in the list whose name leads up to them."""
    return {
        node.name[len(before) :].partition(".")[0] for node in nodes if node.name.startswith(before)
    } - {""}


def _parameters(graph: Graph) -> list[Tensor]:
    """Return each parameter once, by its first view."""
    first: dict[int, Tensor] = {}
    for tensor in graph.tensors:
        if tensor.role is Role.PARAMETER:
            first.setdefault(tensor.storage, tensor)
    return list(first.values())


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
    for tensor in _parameters(graph):
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
    return sum(tensor.shape == matrix for tensor in _parameters(graph))


def _completed(shape: TransformerShape, parameters: int) -> TransformerShape | None:
    """Return the shape with the parameters that it does not name; None where they are many."""
    beside = parameters - shape.parameter_count
    if not 0 <= beside <= _MOST_BESIDE * parameters:
        return None
    return replace(shape, other_parameters=beside)
