"""The operators of a step on whatever device: profiled first, joined once the graph is there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.dispatched import (
    OperatorEvent,
    join_operators,
    profile_operators,
)
from perfmodel.profilers.operators.joined import JoinedOperators


class StepOperators(ABC):
    """What a profiler saw of a few steps: plain data, read where it is asked for."""

    @property
    @abstractmethod
    def busy_s(self) -> float | None:
        """Median seconds of a step in which the device ran anything; None: not told apart."""

    @abstractmethod
    def join(self, graph: Graph) -> JoinedOperators:
        """Join what was seen to the nodes of the step's graph."""


@final
@dataclass(frozen=True)
class HostOperators(StepOperators):
    """Calls of a device that works while it is called."""

    series: Sequence[Sequence[OperatorEvent]]

    @property
    def busy_s(self) -> float | None:
        """None: host and device are one."""
        return None

    def join(self, graph: Graph) -> JoinedOperators:
        """Align the calls with the nodes."""
        return join_operators(graph, self.series)


def profile_calls(step: Callable[[], object], *, steps: int) -> HostOperators:
    """Run steps under the profiler of a device that works while it is called."""
    return HostOperators(profile_operators(step, steps=steps))
