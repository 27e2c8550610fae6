"""A job as its placements are ranked: one with a graph, or one that is known by its type alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.adaptive import adaptation_of, best_goodput, stated_adaptation
from perfmodel.estimator.observed import ObservedJob
from perfmodel.estimator.opaque_job import OpaqueJob
from perfmodel.estimator.opaque_steps import ReplicaColumns, is_weighed
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.feeding.goodput import BestBatch, FloatArray, IntArray, best_batch

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator


class Rated(Protocol):
    """A job whose placements are ranked."""

    def estimate(self, placement: ResolvedPlacement) -> Estimate:
        """Answer for a placement."""
        ...

    def best_batch(self, placement: ResolvedPlacement) -> BestBatch:
        """Return the batch of the greatest goodput there."""
        ...


@dataclass(frozen=True)
class CapturedRated:
    """A job with a graph."""

    estimator: Estimator
    prepared: PreparedJob
    observed: ObservedJob | None = None

    def estimate(self, placement: ResolvedPlacement) -> Estimate:
        """Answer for a placement."""
        return self.estimator.answer(self.prepared, placement, self.observed)

    def best_batch(self, placement: ResolvedPlacement) -> BestBatch:
        """Return the batch of the greatest goodput there."""
        return best_goodput(self.estimator, self.prepared, placement, self.observed)


@dataclass(frozen=True)
class OpaqueRated:
    """A job that is known by its type alone."""

    estimator: Estimator
    opaque: OpaqueJob

    def estimate(self, placement: ResolvedPlacement) -> Estimate:
        """Answer for a placement."""
        return self.estimator.answer_type(self.opaque, [placement])[0]

    def best_batch(self, placement: ResolvedPlacement) -> BestBatch:
        """Return the batch of the greatest goodput there; what fits the memory is not known.

        Raises
        ------
        InvalidInputError
            The job states no adaptation, or no step of it was observed.
        """
        opaque = self.opaque
        stated = stated_adaptation(opaque.job, placement)
        if opaque.own is None or not is_weighed(placement, opaque.job.mode):
            raise InvalidInputError(
                f"The goodput of the job type {opaque.job.job_type!r} needs observed steps of it, "
                "on whole accelerators that it does not share; send some.",
                pointer="/job/job_type",
            )

        def step_times(batch: IntArray, accumulation: IntArray) -> FloatArray:
            columns = ReplicaColumns.of([placement] * len(batch))
            parts = opaque.steps(columns, batch_size=batch, accumulation_steps=1).calibrated.parts
            # Gradients are exchanged in the last micro-batch alone.
            return parts.step_time_s + (accumulation - 1) * parts.compute_s

        return best_batch(adaptation_of(stated, None), placement.count, step_times)
