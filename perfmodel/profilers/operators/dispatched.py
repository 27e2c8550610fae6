"""Operators that PyTorch's dispatcher handed to the CPU, through torch.profiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.alignment import Call, absorb_parts, align
from perfmodel.profilers.operators.fused_kernels import claim_fused, fused_names
from perfmodel.profilers.operators.joined import JoinedOperators, joined_over_steps

#: Events that are operators, as opposed to annotations and nodes of autograd.
_OPERATOR = re.compile(r"(?!profiler::|torch::)\w+::\w+")

#: Composites that are one node in a graph, whatever they are made of on a device.
_FUSED = frozenset(
    f"aten::{op}" for op in ("scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorEvent:
    """One operator call of one profiled step, as the dispatcher saw it.

    Parameters
    ----------
    shapes : tuple of tuple of int
        Shapes of the tensor arguments, in order, lists of tensors flattened.
    time_s : float
        From entry to return, callees included.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    time_s: float


def profile_operators(
    step: Callable[[], object], *, steps: int = 3
) -> tuple[tuple[OperatorEvent, ...], ...]:
    """Run steps under torch.profiler and return the operator calls of each.

    Only calls that the dispatcher hands to a device count, those that a dispatch-mode capture
    sees: ``aten::linear`` is entered, its ``aten::addmm`` is an event, and what ``addmm`` calls
    belongs to it.

    Parameters
    ----------
    step : callable
        Performs one step; warm.
    steps : int
        Profiled steps, >= 1.

    Returns
    -------
    tuple of tuple of OperatorEvent
        One sequence per step, in program order.
    """
    from torch.profiler import ProfilerActivity, profile

    series = []
    for _ in range(steps):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            step()
        series.append(tuple(_dispatched(profiler.profiler.kineto_results.events())))
    return tuple(series)


def join_operators(graph: Graph, series: Sequence[Sequence[OperatorEvent]]) -> JoinedOperators:
    """Join profiled calls to nodes, and take each node's median over the steps.

    Calls are aligned with the nodes in order; a kernel that a compiler fused is shared by the
    nodes it came from (:mod:`.fused_kernels`). What stands for no node keeps its name.
    """
    nodes = [
        Call(op=node.op, shapes=tuple(t.shape for t in graph.inputs_of(node)))
        for node in graph.nodes
    ]
    steps = [_joined_step(events, nodes, graph) for events in series]
    return joined_over_steps(
        graph, steps, totals_s=[sum(event.time_s for event in events) for events in series]
    )


def _joined_step(
    events: Sequence[OperatorEvent], nodes: Sequence[Call], graph: Graph
) -> tuple[dict[int, float], dict[str, float]]:
    """Return the seconds of one step by node, and those of no node by operator."""
    node_s: dict[int, float] = {}
    lost_s: dict[str, float] = {}
    for event, shares in zip(events, _shares(events, nodes, graph), strict=True):
        for node, share in shares.items():
            node_s[node] = node_s.get(node, 0.0) + share * event.time_s
        if not shares:
            lost_s[event.op] = lost_s.get(event.op, 0.0) + event.time_s
    return node_s, lost_s


def _shares(
    events: Sequence[OperatorEvent], nodes: Sequence[Call], graph: Graph
) -> Iterator[Mapping[int, float]]:
    """Yield the nodes of each event with the share of its time that is each one's."""
    named = {i: fused_names(event.op) for i, event in enumerate(events)}
    fused = {i: names for i, names in named.items() if names is not None}
    single = [i for i in named if i not in fused]
    calls = [Call(op=events[i].op, shapes=events[i].shapes) for i in single]
    pairs = align(calls, nodes)
    if fused:
        # A compiler moves calls about: what order alone has paired is not to be believed.
        pairs = [(i, j) for i, j in pairs if calls[i].exact == nodes[j].exact]
        anchors = {single[i]: j for i, j in pairs}
        node_of = anchors | _moved_calls(single, calls, nodes, anchors)
    else:
        node_of = {single[i]: j for i, j in (*pairs, *absorb_parts(pairs, calls, nodes))}
        anchors = {}
    claimed = claim_fused(fused, anchors, graph, taken=set(node_of.values()))
    for i in named:
        yield claimed[i] if i in fused else {node_of[i]: 1.0} if i in node_of else {}


def _moved_calls(
    single: Sequence[int],
    calls: Sequence[Call],
    nodes: Sequence[Call],
    node_of: Mapping[int, int],
) -> dict[int, int]:
    """Pair calls that a compiler moved, which no order finds, by shape or else by operator."""
    moved: dict[int, int] = {}
    for what in ("exact", "loose"):
        taken = {*node_of.values(), *moved.values()}
        waiting: dict[object, list[int]] = {}
        for j, node in enumerate(nodes):
            if j not in taken:
                waiting.setdefault(getattr(node, what), []).append(j)
        for i, call in zip(single, calls, strict=True):
            if i not in node_of and i not in moved and waiting.get(getattr(call, what)):
                moved[i] = waiting[getattr(call, what)].pop(0)
    return moved


def _dispatched(events: Iterable[Any]) -> Iterable[OperatorEvent]:
    """Yield the outermost calls that are no mere composition of others."""
    ends_ns: dict[int, int] = {}
    for event in events:
        name = event.name()
        if not is_dispatched(name):
            continue
        start_ns, thread = event.start_ns(), event.start_thread_id()
        if start_ns < ends_ns.get(thread, 0):
            continue
        ends_ns[thread] = start_ns + event.duration_ns()
        yield OperatorEvent(
            op=name.removeprefix("aten::"),
            shapes=tuple(_tensor_shapes(event.shapes())),
            time_s=event.duration_ns() / 1e9,
        )


def _tensor_shapes(shapes: Iterable[Any]) -> Iterable[tuple[int, ...]]:
    # An argument that is no tensor has the shape [], as a scalar tensor has.
    for shape in shapes:
        if shape and isinstance(shape[0], (list, tuple)):
            yield from (tuple(inner) for inner in shape if inner)
        elif shape:
            yield tuple(shape)


def is_dispatched(name: str) -> bool:
    """Tell whether an event is a call that a graph has a node for: an operator, or a fused kernel.

    Compositions count as what they are composed of, but for those that a graph keeps whole.
    """
    if fused_names(name) is not None:
        return True
    return bool(_OPERATOR.fullmatch(name)) and (not is_composite(name) or name in _FUSED)


@cache
def is_composite(name: str) -> bool:
    """Tell whether an operator only calls others, so that a dispatch mode never sees it.

    Parameters
    ----------
    name : str
        With namespace: ``"aten::linear"``.

    Examples
    --------
    >>> is_composite("aten::linear"), is_composite("aten::addmm")
    (True, False)
    """
    import torch

    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace, None), base, None)
    if packet is None or not hasattr(packet, "overloads"):
        return False
    # Named-dimension and out= overloads say nothing about how the operator itself runs.
    kinds = [
        _is_composite_overload(name if overload == "default" else f"{name}.{overload}")
        for overload in packet.overloads()
        if "name" not in overload and not overload.endswith("out")
    ]
    known = [kind for kind in kinds if kind is not None]
    return bool(known) and all(known)


def _is_composite_overload(name: str) -> bool | None:
    import torch

    base, _, overload = name.partition(".")
    try:
        # TorchScript lists overloads that the dispatcher does not define.
        torch._C._dispatch_find_schema_or_throw(base, overload)
    except RuntimeError:
        return None
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))
