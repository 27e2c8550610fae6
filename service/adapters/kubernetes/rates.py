"""Predicted throughput of a job on the accelerators of a cluster, answered without waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import orjson

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import basis_names
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.topology import Node, Placement
from service.adapters.kubernetes.pods import JobName, Pod
from service.answering.answerer import Answerer
from service.dispatch.dispatcher import Dispatcher
from service.state.state import State

logger = logging.getLogger(__name__)

#: Age from which it is tried again to predict what could not be predicted, seconds.
RETRY_S = 0.8
#: Who is asked about more often than this never waits for what has changed: the answer before is
#: repeated, and is at most this old. Seconds.
REPEATED_S = 0.4
#: Age from which it counts what was observed of other jobs since, seconds: that says a little about
#: every job, and may change all the time.
OTHERS_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """Equal accelerators of one node, by catalogue name."""

    name: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What is predicted for a job on a device.

    Parameters
    ----------
    samples_per_second : float
        What it would reach, whether it fits or not.
    peak_bytes, capacity_bytes : float
        Of the accelerator with the least room; the peak is NaN where nobody knows it.
    """

    samples_per_second: float
    fits: bool
    peak_bytes: float
    capacity_bytes: float
    basis: str

    @property
    def shortage(self) -> str:
        """What there is to say of a job that does not fit."""
        had = f"{self.capacity_bytes / 2**30:.0f} GiB"
        if self.peak_bytes > self.capacity_bytes:
            return f"predicted OOM {self.peak_bytes / 2**30:.0f}/{had}"
        return f"observed OOM on {had}"


#: By device; None where there is no prediction.
Cells = dict[Device, Cell | None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evidence:
    """What predictions rest on; they stand as long as it is the same.

    Parameters
    ----------
    seen, others : tuple of Observation
        What was observed of it, and of all jobs.
    taken_back : int
        How often observations had been taken back.
    """

    answerer: Answerer
    family: str
    seen: tuple[Observation, ...]
    others: tuple[Observation, ...]
    taken_back: int

    def is_same(self, other: Evidence | None) -> bool:
        """Tell whether two are the same."""
        return (
            other is not None
            and other.answerer is self.answerer
            and other.seen is self.seen
            and other.others is self.others
        )


@dataclass(kw_only=True, slots=True, eq=False)
class _Entry:
    """All that is known of one job, on one evidence.

    ``tried`` is the answerer that was asked last, ``checked_at`` when ``cells`` were last found to
    be as new as can be.
    """

    cells: Cells = field(default_factory=dict)
    evidence: Evidence | None = None
    tried: Answerer | None = None
    made_at: float = 0.0
    checked_at: float = 0.0
    task: asyncio.Task[None] | None = None


#: What jobs in annotations that are remembered take together at most, characters.
_MOST_BYTES = 16 * 2**20


class JobGroups:
    """Remembers the jobs of groups of pods, for those pods of a group that carry no annotation.

    The launcher of a job often has the annotation and its workers do not.
    """

    def __init__(self) -> None:
        self._named: LruCache[tuple[str, str, str], JobName] = LruCache(
            4_096, weigh=lambda group, name: len(name.text or ""), most_weight=_MOST_BYTES
        )

    def job_of(self, pod: Pod) -> JobName:
        """Return the job of a pod: its own, or that of its group."""
        if pod.group is None:
            return pod.job
        if pod.job:
            self._named.put(pod.group, pod.job)
            return pod.job
        return self._named.get(pod.group) or pod.job


class RateCache:
    """Remembers predictions by job and device, and makes those that are missing.

    A job that was asked about before is answered from memory, as long as model, catalogue and what
    was observed of it are the same. A new one is prepared by a thread; the caller waits for it as
    long as it says and no longer, and the thread goes on. Belongs to one event loop.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._entries: LruCache[JobName, _Entry] = LruCache(
            4_096, weigh=lambda name, entry: len(name.text or ""), most_weight=_MOST_BYTES
        )

    async def cells(
        self, name: JobName, devices: Collection[Device], *, wait_s: float
    ) -> Mapping[Device, Cell | None]:
        """Return what is predicted for a job, at once where it is known.

        Returns
        -------
        mapping of Device to Cell or None
            A device that is missing or None has no prediction, or none yet.
        """
        entry = self._entry(name)
        until = self._clock() + wait_s
        await self._renewed(name, entry, devices, wait_s)
        while missing := [device for device in devices if device not in entry.cells]:
            left_s = until - self._clock()
            task = self._make(name, entry, missing)
            if left_s <= 0:
                break
            await asyncio.wait({task}, timeout=left_s)
        return entry.cells

    async def _renewed(
        self, name: JobName, entry: _Entry, devices: Collection[Device], wait_s: float
    ) -> None:
        """Make predictions again that rest on what has changed since."""
        now = self._clock()
        if not entry.cells or not self._is_old(entry, now):
            entry.checked_at = now
            return
        task = self._make(name, entry, list({*entry.cells, *devices}))
        if now - entry.checked_at > REPEATED_S and wait_s > 0:
            await asyncio.wait({task}, timeout=wait_s)

    def _is_old(self, entry: _Entry, now: float) -> bool:
        if entry.tried is not self._dispatcher.models.serving:
            return True
        evidence, retry = entry.evidence, now - entry.made_at > RETRY_S
        if evidence is None or evidence.answerer is not entry.tried:
            return retry
        seen = self._dispatcher.state.feed.known(evidence.family)
        if seen is None or seen is not evidence.seen:
            return retry or seen is not None
        others = self._dispatcher.state.feed.known(None)
        if others is evidence.others:
            return False
        taken_back = self._dispatcher.state.feed.taken_back != evidence.taken_back
        return taken_back or now - entry.made_at > OTHERS_S

    def _entry(self, name: JobName) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            entry = _Entry()
            self._entries.put(name, entry)
        return entry

    def _make(self, name: JobName, entry: _Entry, devices: list[Device]) -> asyncio.Task[None]:
        """Start to predict, unless that is under way for this job already."""
        if entry.task is None or entry.task.done():
            entry.task = asyncio.get_running_loop().create_task(self._fill(name, entry, devices))
        return entry.task

    async def _fill(self, name: JobName, entry: _Entry, devices: list[Device]) -> None:
        entry.tried = self._dispatcher.models.serving
        found: tuple[Evidence, Cells] | None = None
        try:
            found = await self._dispatcher.threads.run(
                predict_cells, self._dispatcher.state, entry.tried, name, devices
            )
        except PerfModelError as error:
            logger.info("no scores for the job %s: %s", name.ref or "of an annotation", error)
        except Exception:
            # The scheduler goes on with what it has; what went wrong here is for the log.
            logger.exception("no scores for the job %s", name.ref or "of an annotation")
        if found is not None:
            evidence, made = found
            written = name.ref if name.text is None else orjson.loads(name.text)
            self._dispatcher.shadow.asked.note_row(written, _placements(devices))
            # Shares of one another mean something on one evidence alone: what else there was goes.
            entry.cells = {**entry.cells, **made} if evidence.is_same(entry.evidence) else made
            entry.evidence = evidence
        # What failed is not asked again before it is old.
        entry.cells = {**dict.fromkeys(devices), **entry.cells}
        entry.made_at = self._clock()


def predict_cells(
    state: State, answerer: Answerer, name: JobName, devices: list[Device]
) -> tuple[Evidence, Cells]:
    """Predict a job on some devices; may take seconds where the job is new."""
    job = _find_job(name, state)
    family = job.family
    # First: what is added in between then counts as a change.
    evidence = Evidence(
        answerer=answerer,
        family=family,
        taken_back=state.feed.taken_back,
        seen=state.feed.of(family),
        others=state.feed.of(None),
    )
    placements = _placements(devices)
    matrix = answerer.row(job, placements)
    for error in matrix.errors:
        logger.info("no prediction for a device: %s", error.error)
    cells: Cells = dict.fromkeys(devices)
    bases = basis_names(matrix.basis)[0]
    for column, (device, placement) in enumerate(zip(devices, placements, strict=True)):
        if matrix.answered[0, column]:
            held = answerer.estimator.core.resolve(placement).kinds[0].held
            cells[device] = Cell(
                samples_per_second=float(matrix.samples_per_second[0, column]),
                fits=bool(matrix.fits[0, column]),
                peak_bytes=float(matrix.peak_bytes[0, column]),
                capacity_bytes=float(held.memory_bytes),
                basis=bases[column] or "",
            )
    return evidence, cells


def _placements(devices: list[Device]) -> list[Placement]:
    return [
        Placement(nodes=(Node(accelerator=device.name, count=device.count),)) for device in devices
    ]


def read_job(text: str) -> Job:
    """Read the job of an annotation.

    Raises
    ------
    InvalidInputError
        It is not JSON, or no job.
    """
    try:
        return parse_job(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"It is not JSON: {error}.") from error


def _find_job(name: JobName, state: State) -> Job:
    if name.text is not None:
        return read_job(name.text)
    found = state.references.find(name.ref or "")
    if found is None:
        raise InvalidInputError(f"No job is registered under {name.ref!r}.")
    return parse_job(found)
