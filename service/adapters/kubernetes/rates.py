"""Predicted throughput of a job on the accelerators of a cluster, answered without waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from perfmodel.errors import PerfModelError
from perfmodel.estimator import basis_names
from perfmodel.graph.job_reference import job_family
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.topology import Node, Placement
from service.adapters.kubernetes.job_lookup import JobLookup, find_job
from service.adapters.kubernetes.pods import JobName
from service.answering.clerk import Clerk
from service.desk import Desk

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
        Of the accelerator with the least room.
    basis : str
        What it rests on.
    """

    samples_per_second: float
    fits: bool
    peak_bytes: float
    capacity_bytes: float
    basis: str

    @property
    def shortage(self) -> str:
        """What there is to say of a job that does not fit."""
        return f"predicted OOM {self.peak_bytes / 2**30:.0f}/{self.capacity_bytes / 2**30:.0f} GiB"


#: By device; None where there is no prediction.
Cells = dict[Device, Cell | None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ground:
    """What predictions rest on; they stand as long as it is the same.

    Parameters
    ----------
    clerk : Clerk
        Of a version of the model and a catalogue.
    family : str
        Of the job.
    seen, others : tuple of Observation
        What was observed of it, and of all jobs.
    """

    clerk: Clerk
    family: str
    seen: tuple[Observation, ...]
    others: tuple[Observation, ...]

    def is_that_of(self, other: Ground | None) -> bool:
        """Tell whether two are the same."""
        return (
            other is not None
            and other.clerk is self.clerk
            and other.seen is self.seen
            and other.others is self.others
        )


@dataclass(kw_only=True, slots=True, eq=False)
class _Page:
    """All that is known of one job, on one ground.

    ``tried`` is the clerk that was asked last, ``checked_at`` when ``cells`` were last found to be
    as new as can be.
    """

    cells: Cells = field(default_factory=dict)
    ground: Ground | None = None
    tried: Clerk | None = None
    made_at: float = 0.0
    checked_at: float = 0.0
    task: asyncio.Task[None] | None = None


class RateBook:
    """Remembers predictions by job and device, and makes those that are missing.

    A job that was asked about before is answered from memory, as long as model, catalogue and what
    was observed of it are the same. A new one is prepared by a thread; the caller waits for it as
    long as it says and no longer, and the thread goes on. Belongs to one event loop.

    Parameters
    ----------
    lookup : callable
        Returns where registered jobs are kept, or None.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(
        self,
        desk: Desk,
        lookup: Callable[[], JobLookup | None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._lookup = lookup
        self._clock = clock
        self._pages: LruCache[JobName, _Page] = LruCache(4_096)

    async def cells(
        self, name: JobName, devices: Collection[Device], *, wait_s: float
    ) -> Mapping[Device, Cell | None]:
        """Return what is predicted for a job, at once where it is known.

        Parameters
        ----------
        wait_s : float
            How long to wait for what is not known.

        Returns
        -------
        mapping of Device to Cell or None
            A device that is missing or None has no prediction, or none yet.
        """
        page = self._page(name)
        until = self._clock() + wait_s
        await self._renewed(name, page, devices, wait_s)
        while missing := [device for device in devices if device not in page.cells]:
            left_s = until - self._clock()
            task = self._make(name, page, missing)
            if left_s <= 0:
                break
            await asyncio.wait({task}, timeout=left_s)
        return page.cells

    async def _renewed(
        self, name: JobName, page: _Page, devices: Collection[Device], wait_s: float
    ) -> None:
        """Make predictions again that rest on what has changed since."""
        now = self._clock()
        if not page.cells or not self._is_old(page, now):
            page.checked_at = now
            return
        task = self._make(name, page, list({*page.cells, *devices}))
        if now - page.checked_at > REPEATED_S and wait_s > 0:
            await asyncio.wait({task}, timeout=wait_s)

    def _is_old(self, page: _Page, now: float) -> bool:
        if page.tried is not self._desk.models.serving:
            return True
        ground, retry = page.ground, now - page.made_at > RETRY_S
        if ground is None or ground.clerk is not page.tried:
            return retry
        seen = self._desk.state.known_observations_of(ground.family)
        if seen is None or seen is not ground.seen:
            return retry or seen is not None
        others = self._desk.state.known_observations_of_all()
        return others is not ground.others and now - page.made_at > OTHERS_S

    def _page(self, name: JobName) -> _Page:
        page = self._pages.get(name)
        if page is None:
            page = _Page()
            self._pages.put(name, page)
        return page

    def _make(self, name: JobName, page: _Page, devices: list[Device]) -> asyncio.Task[None]:
        """Start to predict, unless that is under way for this job already."""
        if page.task is None or page.task.done():
            page.task = asyncio.get_running_loop().create_task(self._fill(name, page, devices))
        return page.task

    async def _fill(self, name: JobName, page: _Page, devices: list[Device]) -> None:
        page.tried = self._desk.models.serving
        found: tuple[Ground, Cells] | None = None
        try:
            found = await self._desk.in_thread(
                predict_cells, self._desk, page.tried, name, self._lookup(), devices
            )
        except PerfModelError as error:
            logger.info("no scores for the job %s: %s", name.ref or "of an annotation", error)
        except Exception:
            # The scheduler goes on with what it has; what went wrong here is for the log.
            logger.exception("no scores for the job %s", name.ref or "of an annotation")
        if found is not None:
            ground, made = found
            # Shares of one another mean something on one ground alone: what else there was goes.
            page.cells = {**page.cells, **made} if ground.is_that_of(page.ground) else made
            page.ground = ground
        # What failed is not asked again before it is old.
        page.cells = {**dict.fromkeys(devices), **page.cells}
        page.made_at = self._clock()


def predict_cells(
    desk: Desk, clerk: Clerk, name: JobName, lookup: JobLookup | None, devices: list[Device]
) -> tuple[Ground, Cells]:
    """Predict a job on some devices; may take seconds where the job is new.

    Raises
    ------
    InvalidInputError
        A job that cannot be read or was never registered.
    """
    job = find_job(name, lookup)
    family = job_family(job)
    # First: what is added in between then counts as a change.
    ground = Ground(
        clerk=clerk,
        family=family,
        seen=desk.state.observations_of(family),
        others=desk.state.observations_of_all(),
    )
    placements = [
        Placement(nodes=(Node(accelerator=device.name, count=device.count),)) for device in devices
    ]
    seen, others = clerk.observed_jobs.counting(job), clerk.observed_jobs.companions()
    matrix = clerk.estimator.matrix([job], placements, {0: seen}, others)
    for error in matrix.errors:
        logger.info("no prediction for a device: %s", error.error)
    cells: Cells = dict.fromkeys(devices)
    bases = basis_names(matrix.basis)[0]
    for column, (device, placement) in enumerate(zip(devices, placements, strict=True)):
        if matrix.answered[0, column]:
            held = clerk.estimator.resolve(placement).kinds[0].held
            cells[device] = Cell(
                samples_per_second=float(matrix.samples_per_second[0, column]),
                fits=bool(matrix.fits[0, column]),
                peak_bytes=float(matrix.peak_bytes[0, column]),
                capacity_bytes=float(held.memory_bytes),
                basis=bases[column] or "",
            )
    return ground, cells
