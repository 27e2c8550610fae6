"""Hold stored observations against what is predicted without them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from perfmodel.client.answers import AcceleratorAccuracy, Accuracy, AccuracyPoint
from perfmodel.store.state.observation_records import (
    ObservationFilter,
    ObservationState,
    StoredObservation,
)
from service.dispatch.dispatcher import Dispatcher
from service.observations.predicted_cells import Predicted, PredictedCells

#: Observations that one request looks at, where it asks for those of one accelerator.
_MOST_LOOKED_AT = 2_000
_BELIEVED = ObservationFilter(state=ObservationState.ACCEPTED, measured=True)
#: Observations between two looks at the clock.
_AT_ONCE = 64


def by_accelerator(points: Sequence[AccuracyPoint]) -> tuple[AcceleratorAccuracy, ...]:
    """Return error and coverage of the points of each accelerator, by name.

    The error is the mean of ``|predicted / measured - 1|`` of the step time.

    Examples
    --------
    A step of 0.11 s that was measured as 0.1 s is off by 10 %.

    >>> point = AccuracyPoint(time="", job="", label="", accelerator="T4", placement="T4",
    ...     measured_s=0.1, predicted_s=0.11, low_s=0.09, high_s=0.2)
    >>> [(one.accelerator, round(one.mape, 6), one.coverage) for one in by_accelerator([point])]
    [('T4', 0.1, 1.0)]
    """
    groups: dict[str, list[AccuracyPoint]] = {}
    for point in points:
        groups.setdefault(point.accelerator, []).append(point)
    return tuple(
        AcceleratorAccuracy(
            accelerator=name,
            count=len(own),
            mape=sum(abs(p.predicted_s / p.measured_s - 1.0) for p in own) / len(own),
            coverage=sum(p.low_s <= p.measured_s <= p.high_s for p in own) / len(own),
        )
        for name, own in sorted(groups.items())
    )


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
        self._cells = PredictedCells(dispatcher.estimator, dispatcher.state.references)

    async def page(self, *, accelerator: str | None, cursor: str | None, limit: int) -> Accuracy:
        """Return some points, newest first."""
        return await self._dispatcher.threads.run(self._page, accelerator, cursor, limit)

    def _page(self, accelerator: str | None, cursor: str | None, limit: int) -> Accuracy:
        cells = self._cells_of_today()
        wanted = cells.canonical(accelerator)
        until_s = time.monotonic() + self._limit_s
        points: list[AccuracyPoint] = []
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
                return Accuracy(
                    points=tuple(points),
                    by_accelerator=by_accelerator(points),
                    left_out=left_out,
                    next=cursor,
                )

    def _cells_of_today(self) -> PredictedCells:
        """Return what is remembered of the version that serves; of another one it says nothing."""
        estimator, cells = self._dispatcher.estimator, self._cells
        if cells.estimator is not estimator:
            cells = self._cells = PredictedCells(estimator, self._dispatcher.state.references)
        return cells


def _point(seen: StoredObservation, found: Predicted) -> AccuracyPoint:
    return AccuracyPoint(
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
