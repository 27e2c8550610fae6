"""Predicted throughput of a job on the accelerators of a cluster, answered without waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from perfmodel.errors import PerfModelError
from perfmodel.estimator import Estimator, basis_names
from perfmodel.estimator.lru import LruCache
from perfmodel.placement.topology.topology import Node, Placement
from service.adapters.kubernetes.job_lookup import JobLookup, find_job
from service.adapters.kubernetes.pods import JobName
from service.desk import Desk

logger = logging.getLogger(__name__)

#: Age from which predictions are made again, in the background; until then they are repeated.
FRESH_S = 10.0


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
    fits : bool
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


@dataclass(kw_only=True, slots=True, eq=False)
class _Page:
    """All that is known of one job, from one version of the model.

    ``tried`` is the estimator that was asked last, ``made_by`` the one that ``cells`` are of.
    """

    cells: Cells = field(default_factory=dict)
    made_at: float = 0.0
    made_by: Estimator | None = None
    tried: Estimator | None = None
    task: asyncio.Task[None] | None = None


class RateBook:
    """Remembers predictions by job and device, and makes those that are missing.

    A job that was asked about before is answered from memory. A new one is prepared by a thread;
    the caller waits for it as long as it says and no longer, and the thread goes on. Belongs to
    one event loop.

    Parameters
    ----------
    desk : Desk
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
        name : JobName
        devices : collection of Device
        wait_s : float
            How long to wait for what is not known.

        Returns
        -------
        mapping of Device to Cell or None
            A device that is missing or None has no prediction, or none yet.
        """
        page = self._page(name)
        until = self._clock() + wait_s
        while missing := [device for device in devices if device not in page.cells]:
            left_s = until - self._clock()
            task = self._make(name, page, missing)
            if left_s <= 0:
                break
            await asyncio.wait({task}, timeout=left_s)
        if page.cells and self._is_old(page):
            self._make(name, page, list(page.cells))
        return page.cells

    def _is_old(self, page: _Page) -> bool:
        is_of_another = page.tried is not self._desk.estimator
        return is_of_another or self._clock() - page.made_at > FRESH_S

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
        estimator = page.tried = self._desk.estimator
        if page.made_by is not estimator:
            # Shares of one another mean something within one version of the model alone.
            devices = list(dict.fromkeys((*devices, *page.cells)))
        made: Cells | None = None
        try:
            made = await self._desk.in_thread(
                predict_cells, estimator, name, self._lookup(), devices
            )
        except PerfModelError as error:
            logger.info("no scores for the job %s: %s", name.ref or "of an annotation", error)
        except Exception:
            # The scheduler goes on with what it has; what went wrong here is for the log.
            logger.exception("no scores for the job %s", name.ref or "of an annotation")
        if made is None:
            # What failed is not asked again before it is old.
            page.cells = {**dict.fromkeys(devices), **page.cells}
        else:
            page.cells = {**page.cells, **made} if page.made_by is estimator else made
            page.made_by = estimator
        page.made_at = self._clock()


def predict_cells(
    estimator: Estimator, name: JobName, lookup: JobLookup | None, devices: list[Device]
) -> Cells:
    """Predict a job on some devices; may take seconds where the job is new.

    Raises
    ------
    InvalidInputError
        A job that cannot be read or was never registered.
    """
    job = find_job(name, lookup)
    placements = [
        Placement(nodes=(Node(accelerator=device.name, count=device.count),)) for device in devices
    ]
    matrix = estimator.matrix([job], placements)
    for error in matrix.errors:
        logger.info("no prediction for a device: %s", error.error)
    cells: Cells = dict.fromkeys(devices)
    bases = basis_names(matrix.basis)[0]
    for column, (device, placement) in enumerate(zip(devices, placements, strict=True)):
        if matrix.answered[0, column]:
            held = estimator.resolve(placement).kinds[0].held
            cells[device] = Cell(
                samples_per_second=float(matrix.samples_per_second[0, column]),
                fits=bool(matrix.fits[0, column]),
                peak_bytes=float(matrix.peak_bytes[0, column]),
                capacity_bytes=float(held.memory_bytes),
                basis=bases[column] or "",
            )
    return cells
