"""Goodput of a job that may change its batch: throughput times statistical efficiency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.replicas import replica_parts
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.feeding.batch_split import AffineSteps
from perfmodel.placement.feeding.goodput import (
    BatchAdaptation,
    BestBatch,
    FloatArray,
    IntArray,
    best_batch,
)
from perfmodel.placement.memory.memory import memory_estimate
from perfmodel.types import Mode

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator
    from perfmodel.estimator.observed import ObservedJob
    from perfmodel.graph.job import Job


def best_goodput(
    estimator: Estimator,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> BestBatch:
    """Return the batch of the greatest goodput of a job on a placement.

    Its step is asked for at two batches; in between and beyond, its time on one accelerator and
    its memory are taken as affine in the batch. What observed steps change of the job's own batch
    they change of all.

    Parameters
    ----------
    estimator : Estimator
    prepared : PreparedJob
        Its job states ``adaptation``.
    placement : ResolvedPlacement
    observed : ObservedJob or None
        What observed steps of the job say.

    Raises
    ------
    InvalidInputError
        The job states no adaptation, does not train, or no batch lies within its bounds and fits.
    """
    stated = stated_adaptation(prepared.job, placement)
    factor = _observed_factor(estimator, prepared, placement, observed)
    pair = _at_two_batches(estimator, prepared)
    adaptation = adaptation_of(stated, _most_samples(pair, placement))
    steps = [_affine(estimator, pair, kind.accelerator.name) for kind in placement.kinds]

    def step_times(batch: IntArray, accumulation: IntArray) -> FloatArray:
        alone = np.maximum.reduce([one.times_s(batch)[0] for one in steps])
        parts = replica_parts(
            [alone], placement.world, prepared.step.buckets, mode=Mode.TRAINING,
            zero_stage=placement.fabric.plan.zero_stage, straggler=prepared.straggler,
        )  # fmt: skip
        # Gradients are exchanged in the last micro-batch alone.
        return np.asarray(factor * (parts.step_time_s + (accumulation - 1) * alone))

    return best_batch(adaptation, placement.count, step_times)


def stated_adaptation(job: Job, placement: ResolvedPlacement) -> Mapping[str, Any]:
    """Return what a job states about its batches.

    Raises
    ------
    InvalidInputError
        It states nothing, does not train, or is split over the accelerators.
    """
    if job.adaptation is None or job.mode is not Mode.TRAINING:
        raise InvalidInputError(
            "Goodput is defined for a training job that states its adaptation: "
            "gradient_noise_scale, initial_batch_size and batch_size_bounds.",
            pointer="/job/adaptation",
        )
    if placement.is_split:
        raise InvalidInputError(
            "Goodput is answered for data parallelism; leave the other degrees of the plan out.",
            pointer=f"{placement.pointer}/plan",
        )
    return job.adaptation


def _observed_factor(
    estimator: Estimator,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None,
) -> float:
    """Return how many times as long as predicted the job's own step takes."""
    if observed is None:
        return 1.0
    times = [estimator.answer(prepared, placement, seen).step_time_s for seen in (observed, None)]
    return times[0] / times[1]


def _at_two_batches(estimator: Estimator, prepared: PreparedJob) -> tuple[PreparedJob, PreparedJob]:
    job = replace(prepared.job, accumulation_steps=1)
    other = job.batch_size // 2 if job.batch_size > 1 else 2
    found = [estimator.prepare(replace(job, batch_size=b)) for b in sorted({job.batch_size, other})]
    return found[0], found[1]


def _affine(
    estimator: Estimator, pair: tuple[PreparedJob, PreparedJob], accelerator: str
) -> AffineSteps:
    spec = estimator.accelerators.get(accelerator)
    low, high = estimator.predictions([(one, spec) for one in pair])
    return AffineSteps.through(
        (pair[0].job.batch_size, pair[1].job.batch_size),
        np.array([low.time_s]),
        np.array([high.time_s]),
    )


def _most_samples(pair: tuple[PreparedJob, PreparedJob], placement: ResolvedPlacement) -> int:
    """Return the largest micro-batch that fits every accelerator, by an affine law of memory."""
    most = math.inf
    for kind in placement.kinds:
        low, high = (
            memory_estimate(
                one.memory_profile,
                kind.held,
                job=one.job,
                plan=placement.fabric.plan,
                accelerator_count=placement.count,
            ).peak_bytes
            or 0.0
            for one in pair
        )
        first, second = (one.job.batch_size for one in pair)
        each = max((high - low) / (second - first), 1.0)
        room = kind.held.memory_bytes - (low - first * each)
        most = min(most, room / each)
    return max(int(most), 0)


def adaptation_of(stated: Mapping[str, Any], most_samples: int | None) -> BatchAdaptation:
    """Return what a job states about its batches, with what its memory allows.

    Raises
    ------
    InvalidInputError
        Not even one sample fits, or a number outside its range.
    """
    if most_samples is not None and most_samples < 1:
        raise InvalidInputError(
            "Not even a batch of one sample fits the accelerator.", pointer="/job/batch_size"
        )
    low, high = stated["batch_size_bounds"]
    more = {k: stated[k] for k in ("most_accumulation",) if k in stated}
    return BatchAdaptation(
        gradient_noise_scale=stated["gradient_noise_scale"],
        initial_batch_size=stated["initial_batch_size"],
        batch_size_bounds=(low, high),
        most_samples=most_samples,
        **more,
    )
