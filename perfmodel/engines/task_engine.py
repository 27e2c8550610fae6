"""What every engine of tasks does, and the law that makes them exchangeable.

A task is a function of what all tasks share and of what is its own. It draws on nothing else, and
computes on one thread, so that what comes out does not depend on where it ran, nor on what ran
beside it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Protocol, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


class TaskEngine(Protocol):
    """Runs tasks, as many at a time as it has room for."""

    def run(
        self, function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the position of each task and what came of it, as soon as that is known.

        Parameters
        ----------
        function : callable
            Of a module; takes what is shared, and a task. It may run twice where a process was
            lost, so that it must not leave anything behind.

        Raises
        ------
        TrainingError
            Processes were lost again and again, or there is no cluster.
        Exception
            Whatever a task raised, as it was raised there; no further tasks are begun.
        """


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let numeric libraries compute on one thread inside: sums are added up in one order."""
    torch, pools = _library("torch"), _library("threadpoolctl")
    limits = pools.threadpool_limits(1) if pools else contextlib.nullcontext()
    before = torch.get_num_threads() if torch else 1
    with limits:
        try:
            if torch:
                torch.set_num_threads(1)
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def _library(name: str) -> ModuleType | None:
    if os.environ.get("OMP_NUM_THREADS") == "1":
        return sys.modules.get(name)  # what is loaded later reads that
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None
