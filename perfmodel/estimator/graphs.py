"""Where graphs come from: registered ones, and captures that are kept for the next start."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from types import MappingProxyType

from perfmodel.errors import InvalidInputError, StoreError, UnknownGraphError
from perfmodel.estimator.step import CapturedStep, job_key
from perfmodel.graph.canonical import from_json, to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.store.database import Database, Registration
from perfmodel.types import Compiler, Mode, Precision

Capture = Callable[[Job], CapturedStep]

#: Libraries whose version changes what a capture returns.
_CAPTURED_BY = ("perfmodel", "torch", "timm", "transformers")

#: Precisions whose program is that of another: they change how units of a device compute. What
#: int8 cannot do, training, is refused by the capture, and so left to it.
_SAME_PROGRAM: Mapping[Precision, Precision] = MappingProxyType(
    {Precision.TF32: Precision.FP32, Precision.FP8: Precision.BF16}
)
_SAME_INFERENCE: Mapping[Precision, Precision] = MappingProxyType(
    {**_SAME_PROGRAM, Precision.INT8: Precision.BF16}
)


class GraphLibrary:
    """Finds or captures the graphs of jobs.

    Parameters
    ----------
    capture : callable
        Captures a job that names a model; may take seconds.
    database : Database or None
        Keeps registered graphs and captures; None keeps nothing.
    """

    def __init__(self, *, capture: Capture, database: Database | None = None) -> None:
        self._capture = capture
        self.database = database
        self._locks: dict[str, Lock] = {}
        self._guard = Lock()

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of a job; equal jobs at the same time are captured once.

        Raises
        ------
        UnknownGraphError
            A hash that nobody registered.
        InvalidInputError
            As the capture, or a registered graph of another mode or batch size.
        """
        if job.graph is not None:
            return self._registered(job, job.graph)
        job = captured_view(job)
        key = _capture_key(job)
        with self._lock_of(key):
            kept = self._kept(key)
            if kept is None:
                captured = self._capture(job)
                self._keep(key, captured)
                kept = replace(captured, canonical=None)
        return kept

    def register(
        self,
        graph: Graph,
        *,
        mode: Mode,
        batch_size: int,
        tokens_per_sample: int | None = None,
    ) -> bool:
        """Keep a graph under its content hash.

        Parameters
        ----------
        graph : Graph
        mode : Mode
        batch_size : int
            Samples that the graph was captured with.
        tokens_per_sample : int or None

        Returns
        -------
        bool
            False where the same graph was registered before.

        Raises
        ------
        StoreError
            There is no database, or it cannot be written.
        """
        if self.database is None:
            raise StoreError("Graphs cannot be registered: there is no database to keep them.")
        self.database.put_graph(graph.content_hash, to_json(graph))
        return self.database.register(
            Registration(
                graph_hash=graph.content_hash,
                mode=mode.value,
                batch_size=batch_size,
                tokens_per_sample=tokens_per_sample,
            )
        )

    def _registered(self, job: Job, graph_hash: str) -> CapturedStep:
        database = self.database
        registration = database.registration(graph_hash) if database else None
        canonical = database.graph(graph_hash) if database and registration else None
        if database is None or registration is None or canonical is None:
            known = database.registered() if database else ()
            raise UnknownGraphError(
                graph_hash,
                known=known,
                pointer="/job/graph",
                hint="Register it with POST /v1/graphs.",
            )
        _check_agreement(job, registration)
        return CapturedStep(
            graph=_read(canonical, graph_hash), tokens_per_sample=registration.tokens_per_sample
        )

    def _kept(self, key: str) -> CapturedStep | None:
        if self.database is None:
            return None
        try:
            found = self.database.capture(key)
            canonical = self.database.graph(found[0]) if found else None
        except StoreError:
            return None  # a capture can be made again; a broken database must not stop answers
        if found is None or canonical is None:
            return None
        return CapturedStep(graph=_read(canonical, found[0]), tokens_per_sample=found[1])

    def _keep(self, key: str, step: CapturedStep) -> None:
        if self.database is None:
            return
        try:
            canonical = step.canonical or to_json(step.graph)
            self.database.put_graph(step.graph.content_hash, canonical)
            self.database.put_capture(key, step.graph.content_hash, step.tokens_per_sample)
        except StoreError:
            return  # as in _kept

    def _lock_of(self, key: str) -> Lock:
        with self._guard:
            if len(self._locks) > 10_000:
                self._locks = {k: lock for k, lock in self._locks.items() if lock.locked()}
            return self._locks.setdefault(key, Lock())


def captured_view(job: Job) -> Job:
    """Return the job that is captured for a job: the same program, and the same for all alike.

    Compiler, versions of software and selective checkpointing are no part of a program, optimizer
    and checkpointing none of inference, and some precisions have the program of another one.

    Parameters
    ----------
    job : Job
        With a model.

    Examples
    --------
    >>> captured_view(Job(model="zoo/one", precision=Precision.TF32)) == Job(model="zoo/one")
    True
    """
    trains = job.mode is Mode.TRAINING
    same = _SAME_PROGRAM if trains else _SAME_INFERENCE
    view = replace(
        job,
        precision=same.get(job.precision, job.precision),
        compiler=Compiler.EAGER,
        software=MappingProxyType({}),
        selective_checkpointing=False,
    )
    return view if trains else replace(view, optimizer="sgd", activation_checkpointing=False)


def _read(canonical: bytes, graph_hash: str) -> Graph:
    """Return a graph that was kept under its hash, which takes as long to work out as to read."""
    graph = from_json(canonical)
    vars(graph)["content_hash"] = graph_hash
    return graph


def _check_agreement(job: Job, registration: Registration) -> None:
    stated = {
        "mode": (job.mode.value, registration.mode),
        "batch_size": (job.batch_size, registration.batch_size),
    }
    for name, (asked, captured) in stated.items():
        if asked != captured:
            raise InvalidInputError(
                f"The graph was captured with {name} {captured}, but the job asks for {asked}. "
                f"Register a graph captured with {name} {asked}.",
                pointer=f"/job/{name}",
                allowed=(str(captured),),
            )
    if job.accumulation_steps != 1:
        raise InvalidInputError(
            "A registered graph is one whole step; accumulation_steps cannot be applied to it.",
            pointer="/job/accumulation_steps",
            allowed=("1",),
        )


def _capture_key(job: Job) -> str:
    return hashlib.sha256(f"{job_key(job)} {_versions()}".encode()).hexdigest()[:32]


@cache
def _versions() -> str:
    return " ".join(f"{name}={_version(name)}" for name in _CAPTURED_BY)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
