"""Where graphs come from: registered ones, and captures that are kept for the next start."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from threading import Event, Lock
from typing import Generic, TypeVar

import numpy as np

from perfmodel.devices.extras import installed_version
from perfmodel.errors import InvalidInputError, StoreError, UnknownGraphError
from perfmodel.estimator.jobs.capture_terms import IS_WANTED, refuse_capture_here, wanted_within
from perfmodel.estimator.jobs.captured_step import CapturedStep, asked_in, captured_view
from perfmodel.estimator.jobs.step_facts import facts_from, facts_to_keep
from perfmodel.graph.canonical import from_json, to_json
from perfmodel.graph.in_precision import may_differ
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.noted_settings import HELD_TO, noted_source
from perfmodel.store.state.database import Database, Registration, StoredGraph, deflated, inflated
from perfmodel.types import Mode

Capture = Callable[[Job], CapturedStep]
T = TypeVar("T")

#: Libraries whose version changes what a capture returns.
_CAPTURED_BY = ("perfmodel", "torch", "timm", "transformers")


@dataclass
class _UnderWay(Generic[T]):
    wanted: list[Callable[[], bool]] = field(default_factory=list)
    ended: Event = field(default_factory=Event)
    result: T | None = None

    def is_wanted(self) -> bool:
        return any(wanted() for wanted in self.wanted)


class SharedWork(Generic[T]):
    """Works once on what several threads ask for at a time; it is wanted as long as any of them is.

    Where it fails, the others try for themselves: each may have terms of its own.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, _UnderWay[T]] = {}
        self._lock = Lock()

    def run(self, key: str, work: Callable[[], T]) -> T:
        """Return what comes of it, worked out here or by whoever began before.

        Raises
        ------
        AbandonedError
            Nobody waits for it in this thread any more.
        """
        while True:
            found, is_first = self._joined(key)
            if is_first:
                return self._lead(key, found, work)
            wanted_within(found.ended)
            if found.result is not None:
                return found.result

    def _joined(self, key: str) -> tuple[_UnderWay[T], bool]:
        with self._lock:
            is_first = key not in self._under_way
            found = self._under_way.setdefault(key, _UnderWay())
            found.wanted.append(IS_WANTED.get())
            return found, is_first

    def _lead(self, key: str, found: _UnderWay[T], work: Callable[[], T]) -> T:
        token = IS_WANTED.set(found.is_wanted)
        try:
            found.result = result = work()
            return result
        finally:
            IS_WANTED.reset(token)
            with self._lock:
                del self._under_way[key]
            found.ended.set()


class GraphLibrary:
    """Finds or captures the graphs of jobs.

    Parameters
    ----------
    capture : callable
        Captures a job that names a model; may take seconds.
    database : Database or None
        Keeps registered graphs and captures; None keeps nothing.
    check : callable
        Refuses a job that cannot be captured, by what it says; at once, before anybody waits.
    """

    def __init__(
        self,
        *,
        capture: Capture,
        database: Database | None = None,
        check: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self._capture = capture
        self._check = check
        self.database = database
        self._captures: SharedWork[CapturedStep] = SharedWork()

    def step(self, job: Job) -> CapturedStep:
        """Return a micro-batch of a job and its optimizer; equal ones are captured once at a time.

        Raises
        ------
        UnknownGraphError
            A hash that nobody registered.
        InvalidInputError
            As the capture, or a registered graph of another mode or batch size.
        CaptureNeededError
            It has to be captured, where nobody may wait for that.
        AbandonedError
            It had to wait for that, and nobody waits for it any more.
        """
        if job.graph is not None:
            return self._registered(job, job.graph)
        view = captured_view(job)
        key = hashlib.sha256(f"{view.reference} {_versions()}".encode()).hexdigest()[:32]
        kept = self._kept(key)
        if kept is None:
            self._check(view)
            refuse_capture_here(view)
            kept = self._captures.run(key, partial(self._captured, key, view))
        return kept

    def register(
        self,
        graph: Graph,
        *,
        mode: Mode,
        batch_size: int,
        tokens_per_sample: int | None = None,
        owner: str = "",
    ) -> bool:
        """Keep a graph under its content hash.

        Parameters
        ----------
        batch_size : int
            Samples that the graph was captured with.
        owner : str
            Who registers it; ``""`` is nobody.

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
                owner=owner,
            )
        )

    def _captured(self, key: str, view: Job) -> CapturedStep:
        # Whoever was at it a moment ago may have captured it.
        return self._kept(key) or self._keep(key, self._capture(view))

    def _registered(self, job: Job, graph_hash: str) -> CapturedStep:
        database = self.database
        registration = database.registration(graph_hash) if database else None
        stored = database.registered_graph(graph_hash, facts_version()) if database else None
        if database is None or registration is None or stored is None:
            # None is suggested: whose graphs there are is not for everybody.
            raise UnknownGraphError(
                graph_hash, pointer="/job/graph", hint="Register it with POST /v1/graphs."
            )
        _check_agreement(job, registration)
        canonical = inflated(stored.deflated, stored.graph_hash)
        _check_program(job, noted_source(canonical), registration)
        step = self._step_of(stored)
        return asked_in(step, job.precision) if may_differ(canonical, job.precision) else step

    def _kept(self, key: str) -> CapturedStep | None:
        if self.database is None:
            return None
        try:
            stored = self.database.captured(key, facts_version())
            return self._step_of(stored) if stored else None
        except StoreError:
            return None  # a capture can be made again; a broken database must not stop answers

    def _step_of(self, stored: StoredGraph) -> CapturedStep:
        """Return the step of a graph that is kept; it is read only where its facts are not kept.

        Raises
        ------
        StoreError
            It is damaged.
        """
        canonical = inflated(stored.deflated, stored.graph_hash)
        facts = facts_from(stored.facts)
        if facts is None:
            graph = _read(canonical, stored.graph_hash)
            self._keep_facts(graph, canonical)
        else:
            graph = facts.graph(partial(_unpacked, stored.deflated, stored.graph_hash))
        return CapturedStep(graph=graph, tokens_per_sample=stored.tokens_per_sample, facts=facts)

    def _keep_facts(self, graph: Graph, canonical: bytes) -> None:
        content = facts_to_keep(graph, canonical)
        if self.database is not None and content is not None:
            with suppress(StoreError):  # they can be worked out again
                self.database.put_facts(graph.content_hash, facts_version(), content)

    def _keep(self, key: str, step: CapturedStep) -> CapturedStep:
        """Keep a capture; returns it as it is remembered, packed where it was not read."""
        if self.database is None:
            return replace(step, canonical=None, packed_facts=None)
        content = deflated(step.canonical or to_json(step.graph))
        graph_hash, facts = step.graph.content_hash, step.facts
        stored = StoredGraph(
            graph_hash=graph_hash,
            deflated=content,
            tokens_per_sample=step.tokens_per_sample,
            facts=step.packed_facts,
        )
        with suppress(StoreError):  # as in _kept
            self.database.put_captured(key, stored, facts_version())
        packed = facts.graph(partial(_unpacked, content, graph_hash)) if facts else step.graph
        return replace(step, canonical=None, packed_facts=None, graph=packed)


def _read(canonical: bytes, graph_hash: str) -> Graph:
    """Return a graph that was kept under its hash, which takes as long to work out as to read.

    What others registered was bounded before it was kept.
    """
    graph = from_json(canonical, bounded=False)
    vars(graph)["content_hash"] = graph_hash
    return graph


def _unpacked(content: bytes, graph_hash: str) -> Graph:
    return from_json(inflated(content, graph_hash), bounded=False)


def _check_agreement(job: Job, registration: Registration) -> None:
    stated = {
        "mode": (job.mode.value, registration.mode),
        "batch_size": (job.batch_size, registration.batch_size),
    }
    for name, (asked, captured) in stated.items():
        if asked != captured:
            raise InvalidInputError(
                f"The graph was captured with {name} {captured}, but the job asks for {asked}. "
                f"Register a graph captured with {name} {asked}, or correct what was said of this "
                f"one: PATCH /v1/graphs/{registration.graph_hash}?{name}={asked}.",
                pointer=f"/job/{name}",
                allowed=(str(captured),),
            )
    if job.accumulation_steps != 1:
        raise InvalidInputError(
            "A registered graph is one whole step; accumulation_steps cannot be applied to it.",
            pointer="/job/accumulation_steps",
            allowed=("1",),
        )


_OF_REGISTRATIONS = ("mode", "batch_size", "accumulation_steps")


def _check_program(job: Job, noted: Mapping[str, str], registration: Registration) -> None:
    """Refuse what a job states besides, where the graph notes another setting.

    What may be corrected of a registration is held to that alone.
    """
    for name, stated in stated_fields(job).items():
        if name not in HELD_TO or name in _OF_REGISTRATIONS:
            continue
        captured: object = noted.get(name)
        if name == "sequence_length" and captured is None:
            captured = registration.tokens_per_sample
        asked = "full" if name == "activation_checkpointing" else stated
        if captured is not None and str(asked) != str(captured):
            raise InvalidInputError(
                f"The graph was captured with {name} {captured}, but the job asks for {asked}. "
                f"Register a graph captured with {name} {asked}, or leave it out.",
                pointer=f"/job/{name}",
                allowed=(str(captured),),
            )


@cache
def _versions() -> str:
    return " ".join(f"{name}={installed_version(name) or 'absent'}" for name in _CAPTURED_BY)


#: Code that works facts of graphs out, below the package; other code never changes them.
_WORKS_FACTS_OUT = (
    "types.py", "graph", "features", "placement/memory", "placement/data_parallel",
    "estimator/jobs/step_facts.py",
)  # fmt: skip


@cache
def facts_version() -> str:
    """Return a hash of all code that works facts out.

    Returns
    -------
    str
        32 hexadecimal digits; others as soon as a line of that code is another.
    """
    package = Path(__file__).parents[2]
    state = hashlib.blake2b(digest_size=16)
    for path in _sources(package):
        state.update(path.relative_to(package).as_posix().encode() + b"\0")
        state.update(path.read_bytes())
    # Without sources the release has to do.
    state.update(f"{installed_version('perfmodel') or 'absent'} {np.__version__}".encode())
    return state.hexdigest()


def _sources(package: Path) -> Iterator[Path]:
    for name in _WORKS_FACTS_OUT:
        path = package / name
        yield from [path] if path.suffix and path.is_file() else sorted(path.rglob("*.py"))
