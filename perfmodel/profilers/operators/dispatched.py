"""Operators that PyTorch's dispatcher handed to the CPU, through torch.profiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.alignment import Call, absorb_parts, align
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
    """Join profiled calls to nodes, and take each node's median over the steps."""
    nodes = [
        Call(op=node.op, shapes=tuple(t.shape for t in graph.inputs_of(node)))
        for node in graph.nodes
    ]
    steps = [_joined_step(events, nodes) for events in series]
    return joined_over_steps(
        graph, steps, totals_s=[sum(event.time_s for event in events) for events in series]
    )


def _joined_step(
    events: Sequence[OperatorEvent], nodes: Sequence[Call]
) -> tuple[dict[int, float], dict[str, float]]:
    """Return the seconds of one step by node, and those of no node by operator."""
    calls = [Call(op=event.op, shapes=event.shapes) for event in events]
    pairs = align(calls, nodes)
    node_of = dict([*pairs, *absorb_parts(pairs, calls, nodes)])
    node_s: dict[int, float] = {}
    lost_s: dict[str, float] = {}
    for position, event in enumerate(events):
        if position in node_of:
            node = node_of[position]
            node_s[node] = node_s.get(node, 0.0) + event.time_s
        else:
            lost_s[event.op] = lost_s.get(event.op, 0.0) + event.time_s
    return node_s, lost_s


def _dispatched(events: Iterable[Any]) -> Iterable[OperatorEvent]:
    """Yield the outermost calls that are no mere composition of others."""
    ends_ns: dict[int, int] = {}
    for event in events:
        name = event.name()
        if not _OPERATOR.fullmatch(name) or (is_composite(name) and name not in _FUSED):
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
