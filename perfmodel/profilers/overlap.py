"""What goes on beside a run: the next job is prepared and the last one finished meanwhile."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, Self, TypeVar

from perfmodel.devices.cpu_facts import usable_cpus
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.profilers.run import OTHER_LOAD_BESIDE_DEVICE, MeasureSettings
from perfmodel.profilers.runtime import works_by_itself
from perfmodel.profilers.worker import THREADS_BESIDE, Failure, Success

T = TypeVar("T")

#: One job is prepared and one is finished while one runs.
_MOST_BESIDE = 2


class Pending(Protocol):
    """A measurement that was begun; :class:`~perfmodel.profilers.worker.Measuring` is one."""

    def outcome(self) -> Success | Failure:
        """Return what came of it, once that is known."""

    def end(self) -> None:
        """End it, if it goes on."""


Begin = Callable[[Job, AcceleratorSpec, MeasureSettings], Pending]


def measured(
    begin: Begin, job: Job, accelerator: AcceleratorSpec, settings: MeasureSettings
) -> Success | Failure:
    """Measure one job, with nothing beside it."""
    with InFlight[Job](1) as begun:
        begun.add(job, begin(job, accelerator, settings))
        return begun.take()[1]


def jobs_beside(device: str, *, cores: int | None = None) -> int:
    """Return how many jobs may be prepared or finished while one runs on a device.

    None where the host is the device. Elsewhere so many that the load by them stays below what
    a run tolerates.

    Parameters
    ----------
    device : str
        As :func:`~perfmodel.profilers.runtime.open_runtime` takes it.
    cores : int, optional
        By default those that this process may use.

    Examples
    --------
    >>> [jobs_beside("gpu", cores=cores) for cores in (1, 2, 3, 4, 5, 64)]
    [0, 0, 1, 1, 2, 2]
    >>> jobs_beside("cpu", cores=64)
    0
    """
    if not works_by_itself(device):
        return 0
    cores = cores or len(usable_cpus())
    return min(_MOST_BESIDE, math.ceil(OTHER_LOAD_BESIDE_DEVICE * cores / THREADS_BESIDE) - 1)


class InFlight(Generic[T]):
    """Measurements that were begun, the oldest first; ended with the block.

    Parameters
    ----------
    room : int
        Most at a time.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._begun: deque[tuple[T, Pending]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether the oldest has to end before another is begun."""
        return len(self._begun) >= self._room

    def __len__(self) -> int:
        return len(self._begun)

    def __iter__(self) -> Iterator[T]:
        return (what for what, _ in self._begun)

    def add(self, what: T, pending: Pending) -> None:
        """Take in a measurement with what it is of."""
        self._begun.append((what, pending))

    def take(self) -> tuple[T, Success | Failure]:
        """Wait for the oldest, and return what it is of with what came of it."""
        what, pending = self._begun[0]
        outcome = pending.outcome()
        self._end()
        return what, outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._begun:
            self._end()

    def _end(self) -> None:
        _, pending = self._begun.popleft()
        pending.end()
