"""Tasks on a Ray cluster, each on a processor of some node.

What tasks share is sent to each node once. Ray begins a task again, elsewhere, where its process or
its node was lost. A node must hold the same code and libraries: another version could give other
results, and a task that finds itself on such a node says so instead of running.

Reference: Ray, fault tolerance of tasks,
https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from perfmodel.engines.task_engine import Result, Shared, Task, one_thread
from perfmodel.errors import MissingExtraError, TrainingError

#: What a machine computes with, by name: versions of code and libraries.
Facts = Callable[[], Mapping[str, str]]


class RayTasks:
    """Runs tasks on a Ray cluster that :func:`opened_ray` has connected to.

    Parameters
    ----------
    facts : callable
        Of a module; what results depend on besides the tasks. Each node must say the same.
    retries : int
        Times that a task is begun again whose process was lost.
    """

    def __init__(self, ray: Any, facts: Facts, *, retries: int = 3) -> None:
        self._ray = ray
        self._facts = facts
        self._retries = retries

    def run(
        self, function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield what comes of each task; see :meth:`.TaskEngine.run`."""
        ray = self._ray
        common = ray.put((function, shared, self._facts, dict(self._facts())))
        run = ray.remote(_run).options(num_cpus=1, max_retries=self._retries)
        waiting = {run.remote(common, task): position for position, task in enumerate(tasks)}
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                position = waiting.pop(done)
                yield position, self._result(done)
        finally:
            # Not by force, and none that has come back: Ray 2.60 ends this process over one that
            # finishes while it is killed.
            for task in waiting:
                ray.cancel(task)

    def _result(self, task: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            reason = str(error).strip().splitlines()[0]
            raise TrainingError(
                f"A task on the Ray cluster was lost and begun again {self._retries} times: "
                f"{reason} Look after its nodes (their memory most often), or train with the "
                "engine local."
            ) from error


@contextlib.contextmanager
def opened_ray(address: str | None, facts: Facts) -> Iterator[RayTasks]:
    """Connect to a Ray cluster for as long as tasks run on it.

    Parameters
    ----------
    address : str or None
        Of the cluster; None: the one of the environment, or else one of this machine alone.
    facts : callable
        As :class:`RayTasks` takes it.

    Raises
    ------
    MissingExtraError
        Ray is not installed.
    TrainingError
        No cluster answers at the address.
    """
    try:
        ray = import_module("ray")
    except ModuleNotFoundError as error:
        raise MissingExtraError("Training on a Ray cluster", extra="ray") from error
    begun_here = not ray.is_initialized()
    if begun_here:
        _connect(ray, address)
    try:
        yield RayTasks(ray, facts)
    finally:
        if begun_here:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise TrainingError(
            f"No Ray cluster answers at {address or 'the address of the environment'}: {error}. "
            "Start one (`ray start --head`), state its --address, or train with the engine local."
        ) from error


def _run(common: tuple[Callable[[Any, Any], Any], Any, Facts, Mapping[str, str]], task: Any) -> Any:
    """Run a task on a node."""
    function, shared, facts, expected = common
    own = facts()
    other = [name for name in sorted({*own, *expected}) if own.get(name) != expected.get(name)]
    if other:
        listed = ", ".join(f"{n} {own.get(n)} instead of {expected.get(n)}" for n in other)
        raise TrainingError(
            f"The node {platform.node()} of the Ray cluster computes with {listed}: what it fits "
            "could differ. Install the same there, or train with the engine local."
        )
    with one_thread():
        return function(shared, task)
