"""Operator times of a step by node of its graph, whoever measured them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from perfmodel.graph.ir import Graph
from perfmodel.records import OperatorRecord


@dataclass(frozen=True, kw_only=True)
class JoinedOperators:
    """Operator times of a step, joined to the nodes of its graph.

    Parameters
    ----------
    times_s : mapping of int to float
        Median seconds of a node over the profiled steps, by position; joined nodes only.
    joined_share : float
        Joined seconds over profiled operator seconds, in [0, 1].
    total_s : float
        Median seconds of all operators of one step; the step time minus this is overhead.
    unjoined_s : mapping of str to float
        Median seconds per step of the calls that match no node, by operator name.
    """

    graph: Graph
    times_s: Mapping[int, float]
    joined_share: float
    total_s: float
    unjoined_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def for_workload(self, workload_hash: str) -> tuple[OperatorRecord, ...]:
        """Return the records of the joined nodes, by position."""
        return tuple(
            OperatorRecord(
                workload_hash=workload_hash,
                node=position,
                op=self.graph.nodes[position].op,
                phase=self.graph.nodes[position].phase,
                time_s=time_s,
            )
            for position, time_s in sorted(self.times_s.items())
        )


def joined_over_steps(
    graph: Graph,
    steps: Iterable[tuple[Mapping[int, float], Mapping[str, float]]],
    *,
    totals_s: Sequence[float],
) -> JoinedOperators:
    """Return each node's median over some steps.

    Parameters
    ----------
    steps : iterable of tuple
        Seconds of one step by node, and those of no node by operator.
    totals_s : sequence of float
        Seconds of all operators of each step.
    """
    times_s: dict[int, list[float]] = {}
    unjoined_s: dict[str, list[float]] = {}
    for node_s, lost_s in steps:
        for position, value_s in node_s.items():
            times_s.setdefault(position, []).append(value_s)
        for op, value_s in lost_s.items():
            unjoined_s.setdefault(op, []).append(value_s)
    joined_s = sum(sum(values) for values in times_s.values())
    return JoinedOperators(
        graph=graph,
        times_s={position: _median_s(values) for position, values in times_s.items()},
        joined_share=joined_s / sum(totals_s) if sum(totals_s) else 0.0,
        total_s=_median_s(totals_s),
        unjoined_s={op: _median_s(values) for op, values in unjoined_s.items()},
    )


def _median_s(values: Sequence[float]) -> float:
    """Return the median of some seconds, in whole nanoseconds."""
    # The profiler counts whole nanoseconds, and so does the store.
    return round(statistics.median(values) * 1e9) / 1e9
