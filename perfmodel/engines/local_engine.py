"""Tasks in this process one after the other, or in several forked ones."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from perfmodel.engines.task_engine import Result, Shared, Task, one_thread
from perfmodel.errors import TrainingError

#: Losses of a process, with nothing finished in between, after which nothing is begun again.
_MOST_LOSSES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalEngine:
    """Runs tasks on this machine.

    Forked processes find what tasks share in their memory instead of receiving a copy, and end
    with the one that forked them. What a lost process worked on is begun again.

    Parameters
    ----------
    workers : int
        Tasks that run at a time; below 2 in this process.
    """

    workers: int = 1

    def run(
        self, function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield what comes of each task; see :meth:`.TaskEngine.run`."""
        if self.workers > 1 and len(tasks) > 1:
            yield from _forked(self.workers, function, shared, tasks)
            return
        for position, task in enumerate(tasks):
            with one_thread():
                result = function(shared, task)
            yield position, result


def _forked(
    workers: int,
    function: Callable[[Shared, Task], Result],
    shared: Shared,
    tasks: Sequence[Task],
) -> Iterator[tuple[int, Result]]:
    rest = dict(enumerate(tasks))
    losses = 0
    while rest and losses < _MOST_LOSSES:
        before = len(rest)
        try:
            for position, result in _of_one_pool(workers, function, shared, dict(rest)):
                del rest[position]
                yield position, result
        except BrokenProcessPool:
            losses = 1 if len(rest) < before else losses + 1
    if rest:
        raise TrainingError(
            f"A process was killed {losses} times one after the other, with {len(rest)} of "
            f"{len(tasks)} tasks left. Most often the memory did not suffice: take fewer workers, "
            "and begin again."
        )


def _of_one_pool(
    workers: int,
    function: Callable[[Shared, Task], Result],
    shared: Shared,
    tasks: Mapping[int, Task],
) -> Iterator[tuple[int, Result]]:
    """Yield results until all are there or a process is lost; no process outlives it."""
    told, teller = multiprocessing.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(told, teller, function, shared),
    )
    try:
        positions = {pool.submit(_run, task): position for position, task in tasks.items()}
        for future in as_completed(positions):
            yield positions[future], pickle.loads(future.result())
    finally:
        # Children that are still at work see the end of the pipe, as they would had this one died.
        teller.close()
        pool.shutdown(cancel_futures=True)
        told.close()


#: What a forked process was made for: a function, and what its tasks share.
_WORK: list[tuple[Callable[[Any, Any], Any], Any]] = []
_WHOLE_LIFE = contextlib.ExitStack()


def _begin(
    told: Connection, teller: Connection, function: Callable[[Any, Any], Any], shared: Any
) -> None:
    """Prepare a forked process; the arguments were inherited, nothing was copied."""
    teller.close()
    # For good: threads of OpenMP that the parent had do not exist here and would be waited for.
    os.environ["OMP_NUM_THREADS"] = "1"
    _WHOLE_LIFE.enter_context(one_thread())
    threading.Thread(target=_end_with, args=(told,), daemon=True).start()
    _WORK[:] = [(function, shared)]


def _end_with(told: Connection) -> None:
    """End this process, whatever it is at, once nobody holds the other end of a pipe."""
    told.poll(None)
    os._exit(1)


def _run(task: Any) -> bytes:
    """Run a task; the result is packed here, since torch would leave tensors with this process."""
    function, shared = _WORK[0]
    return pickle.dumps(function(shared, task), protocol=pickle.HIGHEST_PROTOCOL)
