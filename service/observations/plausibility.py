"""Tell observations that can be true from mistakes of unit, of job or of placement."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.core.resolved_placement import rough_bytes
from perfmodel.estimator.evidence.observed_rows import least_step_s
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Throughput
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.observation_records import StoredObservation
from service.observations.type_bounds import TypeGuesses, check_possible

#: A step that takes this many times as long as predicted is a mistake; milliseconds that are sent
#: as seconds are a thousand times as long. Of a job type, also one that is as many times as short.
_TOO_FAR = 200.0

#: What placements that are remembered take together at most.
_MOST_BYTES = 64 * 2**20

_Cell = tuple[str, int, int, Placement]


#: What stands for placements of several kinds; their combinations are too many to be told apart.
MIXED = "mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What the step time of a cell may be, seconds; ``doubt`` says why no time is believed.

    ``too_fast`` and ``too_slow`` say what is wrong with a time beyond the bounds. ``predicted`` and
    ``predicted_step_s`` are the answer without any observation of the job; None where there is
    none.
    """

    least_s: float = 0.0
    most_s: float = float("inf")
    too_fast: str = ""
    too_slow: str = ""
    doubt: str | None = None
    predicted: Throughput | None = None
    predicted_step_s: float = 0.0

    def doubt_of(self, step_time_s: float) -> str | None:
        """Return why a step time is not believed, or None."""
        if self.doubt is not None:
            return self.doubt
        if step_time_s < self.least_s:
            wrong = self.too_fast
        elif step_time_s > self.most_s:
            wrong = self.too_slow
        else:
            return None
        return (
            f"step_time_s is {step_time_s:g} s, {wrong}. Is it in seconds, of a whole step, and of "
            "this job?"
        )


class Plausibility:
    """Judges observations; each cell is looked at in full once.

    Parameters
    ----------
    feed : ObservationFeed
        What was observed before: there is nothing else to judge job types by.
    """

    def __init__(self, estimator: Estimator, feed: ObservationFeed[Observation]) -> None:
        self.estimator = estimator
        self._cells: LruCache[_Cell, Bounds] = LruCache(
            50_000, weigh=lambda cell, bounds: rough_bytes(cell[-1]), most_weight=_MOST_BYTES
        )
        self._types = TypeGuesses(estimator, feed)

    def bounds(self, job: Job, stored: StoredObservation, seen: Observation) -> Bounds:
        """Return what the step time of an observed cell may be.

        Raises
        ------
        InvalidInputError
            Nobody's step takes that time, or no answer can be given about the job there.
        """
        if job.job_type is not None:
            check_possible(seen)
        cell = (stored.job.ref, seen.batch_size, seen.accumulation_steps, seen.placement)
        bounds = self._cells.get(cell)
        if bounds is None:
            bounds = self._bounds(job, seen)
            self._cells.put(cell, bounds)
        return bounds if job.job_type is None else self._of_type(job, stored, seen)

    def _of_type(self, job: Job, stored: StoredObservation, seen: Observation) -> Bounds:
        likely_s = self._types.likely_s(job, stored.job.family, seen, stored.reporter)
        if likely_s is None:
            return Bounds()
        by = "than what was reported of this job type before lets expect"
        return Bounds(
            least_s=likely_s[0] / _TOO_FAR,
            most_s=likely_s[1] * _TOO_FAR,
            too_fast=f"more than {_TOO_FAR:g} times less {by}",
            too_slow=f"more than {_TOO_FAR:g} times more {by}",
        )

    def _bounds(self, job: Job, seen: Observation) -> Bounds:
        asked = replace(job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps)
        placement = self.estimator.core.resolve(seen.placement)
        if job.job_type is not None:
            # Whether an answer can rest on it is tried here.
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
        least_s = least_step_s(prepared, placement)
        return Bounds(
            least_s=least_s,
            most_s=_TOO_FAR * predicted_s,
            too_fast=f"but the arithmetic of the step alone takes {least_s:.3g} s at the peak of "
            "the accelerator",
            too_slow=f"more than {_TOO_FAR:g} times what is predicted",
            predicted=predicted.throughput,
            predicted_step_s=predicted_s,
        )


def kind_of(placement: Placement, catalog: Catalog) -> str:
    """Return the accelerator of a placement by its name in the catalogue; MIXED of several."""
    kinds = {catalog.canonical_name(node.accelerator) for node in placement.nodes}
    return kinds.pop() if len(kinds) == 1 else MIXED
