"""Observed cells as one version of the model predicts them, as if nothing had been observed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from perfmodel.errors import PerfModelError, UnknownAcceleratorError
from perfmodel.estimator import Estimator, PreparedJob
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.lru import LruCache
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.short_form import write_short_form
from perfmodel.requests import parse_job
from perfmodel.store.state.observation_records import StoredObservation
from service.observations.plausibility import MIXED, kind_of
from service.state.state import JobFinder, resolve_job_reference

logger = logging.getLogger(__name__)

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


class PredictedCells:
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
            asked = job.at_batch(seen.batch_size, seen.accumulation_steps)
            placement = parse_placement(orjson.loads(seen.placement))
            return self.estimator.core.prepare(asked), self.estimator.core.resolve(placement)
        except PerfModelError as error:
            logger.warning("observation %s of %s: %s", seen.key, seen.job.ref, error)
            return None

    def _answer(self, prepared: PreparedJob, placement: ResolvedPlacement) -> Predicted | None:
        try:
            answer = answer_cell(self.estimator.core, prepared, placement)
        except (PerfModelError, ArithmeticError) as error:
            logger.warning("%s is not predicted any more: %s", prepared.job.label, error)
            return None
        rate, step_s = answer.throughput, answer.step_time_s
        return Predicted(
            label=f"{prepared.job.label} {prepared.job.mode.value} batch {prepared.job.batch_size}",
            accelerator=kind_of(placement),
            placement=write_short_form(placement.placement),
            step_s=step_s,
            low_s=step_s * rate.samples_per_second / rate.high,
            high_s=step_s * rate.samples_per_second / rate.low,
        )


def _cell(seen: StoredObservation) -> _Cell:
    return seen.job.ref, seen.batch_size, seen.accumulation_steps, seen.placement
