"""Measure a list of jobs here, each alone on its device, and never one of them twice.

One process on one machine, with no database: the folder of records says what is done. Lists that
several workers share are campaigns (:mod:`perfmodel.campaigns`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job, stated_fields
from perfmodel.profilers.overlap import Begin, InFlight, jobs_beside
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.wire import workload_key
from perfmodel.profilers.worker import Failure, Measuring, Success
from perfmodel.records import Measurement


class ResultStore(Protocol):
    """What profiling needs of the place its results go to; the profile store is one."""

    def append(self, measurement: Measurement, graph: str) -> None:
        """Store a measurement durably, with the canonical JSON of its graph."""

    def append_failure(self, key: str, *, accelerator: str, failure: Mapping[str, Any]) -> None:
        """Store that a job could not be measured."""

    def finished_keys(self, accelerator: str, *, noisy: bool = True) -> set[str]:
        """Return the job keys of all measurements on an accelerator."""

    def failures(self, accelerator: str) -> Mapping[str, Any]:
        """Return the failures on an accelerator by job key."""


class EventKind(StrEnum):
    """What happened to a job."""

    SKIPPED = "skipped"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileEvent:
    """One line of progress.

    Parameters
    ----------
    position, total : int
        The job is number ``position`` (from 1) of ``total``.
    remaining_s : float or None
        Estimate from the mean of the jobs measured so far; None before the first.
    failed_before : str
        Why a job that is skipped failed in an earlier run; empty where it was measured.
    """

    kind: EventKind
    job: Job
    position: int
    total: int
    elapsed_s: float
    remaining_s: float | None = None
    outcome: Success | Failure | None = None
    failed_before: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileReport:
    """How profiling ended.

    Parameters
    ----------
    finished, skipped, failed : int
        Jobs measured now, measured (or failed) before, and failed now.
    """

    finished: int
    skipped: int
    failed: int
    elapsed_s: float


def profile_jobs(
    jobs: Sequence[Job],
    *,
    store: ResultStore,
    device: AcceleratorSpec,
    settings: MeasureSettings,
    on_event: Callable[[ProfileEvent], None] | None = None,
    retry_failed: bool = False,
    retry_noisy: bool = False,
    begin: Begin = Measuring,
    beside: int | None = None,
) -> ProfileReport:
    """Measure every job that the store does not hold yet.

    Each job runs in a fresh process that holds the lock of the device, so two loops on one device
    take turns. Where the device works by itself, the next job is prepared and the last one finished
    meanwhile (:mod:`~perfmodel.profilers.overlap`). Results are durable one after the other: a loop
    that was interrupted, at whatever moment and however hard, goes on where it stopped when it is
    called again with the same jobs.

    Parameters
    ----------
    jobs : sequence of Job
        Equal jobs are measured once.
    store : ResultStore
        For example a :class:`~perfmodel.store.profiles.ProfileStore`; call its
        ``compact`` at the end.
    retry_failed : bool
        Measure jobs again that failed in an earlier run; those that had less time than they get
        now are measured again in any case.
    retry_noisy : bool
        Measure jobs again that were never measured undisturbed; of a job the newest record counts.
    begin : callable
        Begins a measurement.
    beside : int, optional
        Jobs that are prepared or finished while one runs; by default as many as the host bears.
    """
    done_before = store.finished_keys(device.name, noisy=not retry_noisy)
    failures = {
        key: failure
        for key, failure in store.failures(device.name).items()
        if not retry_failed and failure.get("timeout_s", math.inf) >= settings.timeout_s
    }
    open_jobs, skipped = _split(jobs, device, settings, done_before, failures)
    progress = _Progress(on_event, total=len(jobs), skipped=len(skipped), waiting=len(open_jobs))
    for position, (job, why) in enumerate(skipped, start=1):
        progress.tell(EventKind.SKIPPED, job, position, failed_before=why)
    failed = 0
    if beside is None:
        beside = jobs_beside(settings.device)

    def end(begun: InFlight[tuple[int, str, Job]]) -> None:
        nonlocal failed
        (before, key, job), outcome = begun.take()
        failed += isinstance(outcome, Failure)
        _keep(store, device, key, job, outcome)
        kind = EventKind.FAILED if isinstance(outcome, Failure) else EventKind.FINISHED
        progress.tell_of_open(kind, job, before, outcome)

    with InFlight[tuple[int, str, Job]](1 + beside) as begun:
        for before, (key, job) in enumerate(open_jobs.items()):
            progress.tell_of_open(EventKind.STARTED, job, before)
            begun.add((before, key, job), begin(job, device, settings))
            if begun.is_full:
                end(begun)
        while begun:
            end(begun)
    return ProfileReport(
        finished=len(open_jobs) - failed,
        skipped=len(skipped),
        failed=failed,
        elapsed_s=progress.elapsed_s,
    )


class _Progress:
    """Tells what happens to jobs: those that are skipped, then those that wait to be measured."""

    def __init__(
        self,
        on_event: Callable[[ProfileEvent], None] | None,
        *,
        total: int,
        skipped: int,
        waiting: int,
    ) -> None:
        self._on_event, self._total = on_event, total
        self._skipped, self._waiting = skipped, waiting
        self._ended = 0
        self._begin_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin_s

    def tell(self, kind: EventKind, job: Job, position: int, **more: Any) -> None:
        """Tell what happened to the job of a position, from 1 on."""
        if self._on_event is not None:
            self._on_event(
                ProfileEvent(
                    kind=kind,
                    job=job,
                    position=position,
                    total=self._total,
                    elapsed_s=self.elapsed_s,
                    **more,
                )
            )

    def tell_of_open(
        self, kind: EventKind, job: Job, before: int, outcome: Success | Failure | None = None
    ) -> None:
        """Tell what happened to a job that is begun after so many others."""
        self._ended += outcome is not None
        done = self._ended
        remaining_s = self.elapsed_s / done * (self._waiting - done) if done else None
        position = self._skipped + before + 1
        self.tell(kind, job, position, outcome=outcome, remaining_s=remaining_s)


def _split(
    jobs: Sequence[Job],
    device: AcceleratorSpec,
    settings: MeasureSettings,
    done: Collection[str],
    failures: Mapping[str, Any],
) -> tuple[dict[str, Job], list[tuple[Job, str]]]:
    """Return the jobs to measure by their keys, and the others with why they failed before."""
    open_jobs: dict[str, Job] = {}
    skipped: list[tuple[Job, str]] = []
    for job in jobs:
        key = workload_key(
            stated_fields(job),
            accelerator=device.name,
            threads=settings.threads,
            execution=settings.execution,
        )
        if key in done or key in failures or key in open_jobs:
            why = "" if key in done else str(failures.get(key, {}).get("reason", ""))
            skipped.append((job, why))
        else:
            open_jobs[key] = job
    return open_jobs, skipped


def _keep(
    store: ResultStore, device: AcceleratorSpec, key: str, job: Job, outcome: Success | Failure
) -> None:
    if isinstance(outcome, Success):
        store.append(outcome.measurement, outcome.graph_json)
        return
    store.append_failure(key, accelerator=device.name, failure=outcome.record(job))
