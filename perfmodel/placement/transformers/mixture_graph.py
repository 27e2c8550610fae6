"""Recognise a stack of layers with mixtures of experts in a captured graph.

Experts are parameters of three extents, the first of which counts them, that products of the
forward pass read. Modules of the same list are layers; those in which experts are read have a
mixture, others need not. What the parameters leave over beside experts, tables and output belongs
to what every token passes: attention of whatever kind, experts that all tokens share, and networks
of layers without a mixture, each layer with the mean of it.

Left out, and answered with None: experts that are modules of their own, attention written out in
single products, and models of two stacks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Phase, Role

_PRODUCTS = ("_grouped_mm", "bmm", "baddbmm")
_ATTENTION = ("scaled_dot_product_attention", "_scaled_dot_product")
_LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Experts:
    count: int
    per_token: int
    layers: int
    mixture_layers: int
    inner: int
    is_gated: bool
    elements: int


def mixture_shape(graph: Graph) -> TransformerShape | None:
    """Return the dimensions of a graph's transformer whose layers have experts; None without.

    Parameters
    ----------
    graph : Graph
        Of a forward pass or of a whole step.
    """
    forward = [node for node in graph.nodes if node.phase is Phase.FORWARD]
    table = _table(graph, forward)
    query_key = _attention(graph, forward)
    if table is None or query_key is None:
        return None
    words, width = table
    (batch, heads, tokens, head_size), (_, kv_heads, *_) = query_key
    experts = _experts(graph, forward, width, batch * tokens)
    if experts is None:
        return None
    matrices = sum(tensor.shape == table for tensor in parameters_of(graph))
    is_scored = any(
        len(tensor.shape) >= 2 and tensor.shape[-1] == words
        for node in forward
        for tensor in graph.outputs_of(node)
    )
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
        has_head=is_scored,
        is_tied=matrices < 2,
        own_weights=own,
    )
    beside = graph.parameter_count - shape.parameter_count
    values = {name: getattr(shape, name) for name in shape.__slots__}
    return TransformerShape(**{**values, "other_parameters": max(beside, 0)})


def parameters_of(graph: Graph) -> list[Tensor]:
    """Return each parameter once, by its first view."""
    first: dict[int, Tensor] = {}
    for tensor in graph.tensors:
        if tensor.role is Role.PARAMETER:
            first.setdefault(tensor.storage, tensor)
    return list(first.values())


def _table(graph: Graph, forward: list[Node]) -> tuple[int, int] | None:
    """Return the largest table that is looked up in."""
    found = [
        (shape[0], shape[1])
        for node in forward
        if node.op == "embedding" and len(shape := graph.inputs_of(node)[0].shape) == 2
    ]
    return max(found, default=None)


def _attention(graph: Graph, forward: list[Node]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the shapes of queries and keys that most calls of attention have."""
    calls = Counter(
        (query.shape, key.shape)
        for node in forward
        if node.op.startswith(_ATTENTION)
        for query, key in [graph.inputs_of(node)[:2]]
        if len(query.shape) == len(key.shape) == 4
    )
    return calls.most_common(1)[0][0] if calls else None


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
