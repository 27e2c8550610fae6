"""Tell observations that can be true from mistakes of unit, of job or of placement."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_rows import least_step_s
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Throughput
from perfmodel.placement.topology.topology import Placement

#: A step that takes this many times as long as predicted is a mistake; milliseconds that are sent
#: as seconds are a thousand times as long.
_TOO_SLOW = 200.0

_Cell = tuple[str, int, int, Placement]


#: What stands for placements of several kinds; their combinations are too many to be told apart.
MIXED = "mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What the step time of a cell may be, seconds; ``doubt`` says why no time is believed.

    ``predicted`` and ``predicted_step_s`` are the answer without any observation of the job; None
    where there is none.
    """

    least_s: float = 0.0
    most_s: float = float("inf")
    doubt: str | None = None
    predicted: Throughput | None = None
    predicted_step_s: float = 0.0

    def doubt_of(self, step_time_s: float) -> str | None:
        """Return why a step time is not believed, or None."""
        if self.doubt is not None:
            return self.doubt
        if step_time_s < self.least_s:
            return (
                f"step_time_s is {step_time_s:g} s, but the arithmetic of the step alone "
                f"takes {self.least_s:.3g} s at the peak of the accelerator. Is it in seconds, "
                "of a whole step, and of this job?"
            )
        if step_time_s > self.most_s:
            return (
                f"step_time_s is {step_time_s:g} s, more than {_TOO_SLOW:g} times what is "
                "predicted. Is it in seconds, and of one step?"
            )
        return None


class Plausibility:
    """Judges observations; each cell is looked at in full once."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self._cells: LruCache[_Cell, Bounds] = LruCache(50_000)

    def bounds(self, job: Job, ref: str, seen: Observation) -> Bounds:
        """Return what the step time of an observed cell may be."""
        cell = (ref, seen.batch_size, seen.accumulation_steps, seen.placement)
        bounds = self._cells.get(cell)
        if bounds is None:
            bounds = self._bounds(job, seen)
            self._cells.put(cell, bounds)
        return bounds

    def _bounds(self, job: Job, seen: Observation) -> Bounds:
        asked = replace(job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps)
        placement = self.estimator.core.resolve(seen.placement)
        if job.job_type is not None:
            # Whether an answer can rest on it is tried here; no time of it is beyond belief.
            self.estimator.estimate(asked, seen.placement, [seen])
            return Bounds()
        prepared = self.estimator.core.prepare(asked)
        predicted = self.estimator.answer(prepared, placement)
        predicted_s = predicted.step_time_s
        try:
            # Whether an answer can rest on this cell is tried now, at a time that is beyond doubt.
            likely = replace(seen, step_time_s=predicted_s, sync_time_s=None)
            self.estimator.observed(prepared, [likely])
        except InvalidInputError as error:
            return Bounds(doubt=error.message)
        return Bounds(
            least_s=least_step_s(prepared, placement),
            most_s=_TOO_SLOW * predicted_s,
            predicted=predicted.throughput,
            predicted_step_s=predicted_s,
        )


def kind_of(placement: Placement, catalog: Catalog) -> str:
    """Return the accelerator of a placement by its name in the catalogue; MIXED of several."""
    kinds = {catalog.canonical_name(node.accelerator) for node in placement.nodes}
    return kinds.pop() if len(kinds) == 1 else MIXED
