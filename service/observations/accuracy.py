"""Hold stored observations against what is predicted without them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from perfmodel.errors import PerfModelError, UnknownAcceleratorError
from perfmodel.estimator import Estimator, PreparedJob
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.short_form import write_short_form
from perfmodel.requests import parse_job
from perfmodel.store.state.observation_records import (
    ObservationFilter,
    ObservationState,
    StoredObservation,
)
from service.dispatch.dispatcher import Dispatcher
from service.observations.plausibility import MIXED, kind_of
from service.state.job_references import JobFinder, resolve_job_reference

logger = logging.getLogger(__name__)

#: Observations that one request looks at, where it asks for those of one accelerator.
_MOST_LOOKED_AT = 2_000
_BELIEVED = ObservationFilter(state=ObservationState.ACCEPTED)
#: Observations between two looks at the clock.
_AT_ONCE = 64

#: What the texts of placements that are remembered take together at most.
_MOST_BYTES = 32 * 2**20

_Cell = tuple[str, int, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicted:
    """What is predicted of one cell without any observation of its job.

    Parameters
    ----------
    accelerator : str
        :data:`~service.observations.plausibility.MIXED` where several kinds work together.
    placement : str
        For people.
    """

    label: str
    accelerator: str
    placement: str
    step_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A measured step beside what was predicted of it."""

    time: str
    job: str
    label: str
    accelerator: str
    placement: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class AccuracyPage:
    """Some points, newest first.

    Parameters
    ----------
    left_out : int
        Observations on the way that cannot be predicted now.
    """

    points: tuple[Point, ...]
    left_out: int
    next_cursor: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "points": [asdict(point) for point in self.points],
            "by_accelerator": by_accelerator(self.points),
            "left_out": self.left_out,
            "next": self.next_cursor,
        }


def by_accelerator(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return error and coverage of the points of each accelerator, by name.

    The error is the mean of ``|predicted / measured - 1|`` of the step time.

    Examples
    --------
    A step of 0.11 s that was measured as 0.1 s is off by 10 %.

    >>> point = Point(time="", job="", label="", accelerator="T4", placement="T4",
    ...     measured_s=0.1, predicted_s=0.11, low_s=0.09, high_s=0.2)
    >>> [{k: round(v, 6) if k == "mape" else v for k, v in line.items()}
    ...  for line in by_accelerator([point])]
    [{'accelerator': 'T4', 'count': 1, 'mape': 0.1, 'coverage': 1.0}]
    """
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.accelerator, []).append(point)
    return [
        {
            "accelerator": name,
            "count": len(own),
            "mape": sum(abs(p.predicted_s / p.measured_s - 1.0) for p in own) / len(own),
            "coverage": sum(p.low_s <= p.measured_s <= p.high_s for p in own) / len(own),
        }
        for name, own in sorted(groups.items())
    ]


class AccuracyReport:
    """Predicts again what was observed, as if nothing of its job had been.

    Each cell (job, batch, placement) is predicted once by each version of the model.

    Parameters
    ----------
    limit_s : float
        A page ends early rather than take much longer: after a start jobs have to be read and
        predicted anew.
    """

    def __init__(self, dispatcher: Dispatcher, *, limit_s: float = 2.0) -> None:
        self._dispatcher = dispatcher
        self._limit_s = limit_s
        self._cells = _Cells(dispatcher.estimator, dispatcher.state.references)

    async def page(
        self, *, accelerator: str | None, cursor: str | None, limit: int
    ) -> AccuracyPage:
        """Return some points, newest first."""
        return await self._dispatcher.threads.run(self._page, accelerator, cursor, limit)

    def _page(self, accelerator: str | None, cursor: str | None, limit: int) -> AccuracyPage:
        cells = self._cells_of_today()
        wanted = cells.canonical(accelerator)
        until_s = time.monotonic() + self._limit_s
        points: list[Point] = []
        looked_at = left_out = 0
        while True:
            most = min(limit - len(points), _AT_ONCE)
            page = self._dispatcher.state.observations.page(_BELIEVED, cursor=cursor, limit=most)
            for seen, found in zip(page.items, cells.predicted(page.items), strict=True):
                left_out += found is None
                if found is not None and wanted in (None, found.accelerator):
                    points.append(_point(seen, found))
            looked_at, cursor = looked_at + len(page.items), page.next_cursor
            enough = len(points) >= limit or looked_at >= _MOST_LOOKED_AT
            if cursor is None or enough or time.monotonic() > until_s:
                return AccuracyPage(points=tuple(points), left_out=left_out, next_cursor=cursor)

    def _cells_of_today(self) -> _Cells:
        """Return what is remembered of the version that serves; of another one it says nothing."""
        estimator, cells = self._dispatcher.estimator, self._cells
        if cells.estimator is not estimator:
            cells = self._cells = _Cells(estimator, self._dispatcher.state.references)
        return cells


class _Cells:
    """Cells as one estimator predicts them without observations."""

    def __init__(self, estimator: Estimator, references: JobFinder) -> None:
        self.estimator = estimator
        self._references = references
        self._known: LruCache[_Cell, tuple[Predicted | None]] = LruCache(
            50_000, weigh=lambda cell, known: len(cell[-1]), most_weight=_MOST_BYTES
        )

    def canonical(self, accelerator: str | None) -> str | None:
        """Return the name of an accelerator as points have it."""
        if accelerator is None or accelerator == MIXED:
            return accelerator
        try:
            return self.estimator.accelerators.get(accelerator).name
        except UnknownAcceleratorError as error:
            error.pointer = "/query/accelerator"
            raise

    def predicted(self, observations: Sequence[StoredObservation]) -> list[Predicted | None]:
        """Return what is predicted of the cell of each; None where nothing is."""
        new = {_cell(seen): seen for seen in observations if self._known.get(_cell(seen)) is None}
        questions = {cell: self._question(seen) for cell, seen in new.items()}
        asked = [question for question in questions.values() if question is not None]
        # One call of the model for all of them; one that cannot be answered is found below.
        with contextlib.suppress(ArithmeticError):
            self.estimator.core.predictions(
                [(job, a) for job, on in asked for a in on.accelerators]
            )
        for cell, question in questions.items():
            self._known.put(cell, (None if question is None else self._answer(*question),))
        return [(self._known.get(_cell(seen)) or (None,))[0] for seen in observations]

    def _question(self, seen: StoredObservation) -> tuple[PreparedJob, ResolvedPlacement] | None:
        try:
            job = parse_job(resolve_job_reference(seen.job.ref, self._references))
            if job.job_type is not None:
                return None  # its answers rest on observations alone
            asked = replace(
                job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps
            )
            placement = parse_placement(orjson.loads(seen.placement))
            return self.estimator.core.prepare(asked), self.estimator.core.resolve(placement)
        except PerfModelError as error:
            logger.warning("observation %s of %s: %s", seen.key, seen.job.ref, error)
            return None

    def _answer(self, prepared: PreparedJob, placement: ResolvedPlacement) -> Predicted | None:
        try:
            answer = self.estimator.answer(prepared, placement)
        except (PerfModelError, ArithmeticError) as error:
            logger.warning("%s is not predicted any more: %s", prepared.job.label, error)
            return None
        rate, step_s = answer.throughput, answer.step_time_s
        return Predicted(
            label=_label(prepared.job),
            accelerator=kind_of(placement.placement, self.estimator.accelerators),
            placement=write_short_form(placement.placement),
            step_s=step_s,
            low_s=step_s * rate.samples_per_second / rate.high,
            high_s=step_s * rate.samples_per_second / rate.low,
        )


def _cell(seen: StoredObservation) -> _Cell:
    return seen.job.ref, seen.batch_size, seen.accumulation_steps, seen.placement


def _label(job: Job) -> str:
    return f"{job.label} {job.mode.value} batch {job.batch_size}"


def _point(seen: StoredObservation, found: Predicted) -> Point:
    return Point(
        time=seen.received_at,
        job=seen.job.ref,
        label=found.label,
        accelerator=found.accelerator,
        placement=found.placement,
        measured_s=seen.step_time_s,
        predicted_s=found.step_s,
        low_s=found.low_s,
        high_s=found.high_s,
    )
