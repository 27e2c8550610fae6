"""Put together the Estimate of one job on one placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.estimate import Breakdown, Estimate, MemoryEstimate, Throughput
from perfmodel.placement.memory import memory_estimate
from perfmodel.placement.step_time import combine_one
from perfmodel.types import Basis

#: Rungs of the ladder of evidence, best first.
LADDER: tuple[Basis, ...] = tuple(Basis)

#: Position of each rung on the ladder.
RUNG = {basis: position for position, basis in enumerate(LADDER)}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPlacement:
    """A placement whose accelerators have been looked up.

    Parameters
    ----------
    accelerators : tuple of AcceleratorSpec
        Each kind once, in the order of the placement.
    counts : tuple of int
        Replicas on each kind.
    warnings : tuple of str
        What the answer leaves out.
    """

    accelerators: tuple[AcceleratorSpec, ...]
    counts: tuple[int, ...]
    warnings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Accelerators in all."""
        return sum(self.counts)


def compose(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
) -> Estimate:
    """Put together the answer from the prediction on each kind of accelerator.

    Parameters
    ----------
    prepared : PreparedJob
    placement : ResolvedPlacement
    predictions : sequence
        One for each of ``placement.accelerators``, in order.

    Returns
    -------
    Estimate
        ``low`` comes from the upper ends of the step times and ``high`` from the lower ends.
    """
    slowest = max(predictions, key=lambda p: p.time_s)
    mode, samples, counts = prepared.job.mode, prepared.samples, placement.counts
    times_s, lows_s, highs_s = zip(
        *((p.time_s, p.low_s, p.high_s) for p in predictions), strict=True
    )
    step_time_s, rate = combine_one(times_s, counts, mode=mode, samples=samples)
    _, low = combine_one(highs_s, counts, mode=mode, samples=samples)
    _, high = combine_one(lows_s, counts, mode=mode, samples=samples)
    memory = _tightest_memory(prepared, placement)
    return Estimate(
        throughput=Throughput(
            samples_per_second=rate,
            low=low,
            high=high,
            coverage=min(p.coverage for p in predictions),
            tokens_per_second=_tokens_per_second(prepared, rate),
        ),
        step_time_s=step_time_s,
        compute_time_s=step_time_s,
        sync_time_s=0.0,
        breakdown=Breakdown(compute_s=step_time_s),
        memory=memory,
        basis=basis_of([p.basis for p in predictions], placement.count),
        out_of_distribution=any(p.out_of_distribution for p in predictions),
        nearest=tuple(slowest.nearest),
        model_version=slowest.model_version,
        unpriced_operators=prepared.step.unpriced_operators,
        warnings=_warnings(prepared, placement, predictions, memory),
    )


def basis_of(bases: Sequence[Basis], count: int) -> Basis:
    """Return the weakest rung that an answer stands on.

    Scaling to several accelerators is an analytical step, whatever the time of one rests on.

    Parameters
    ----------
    bases : sequence of Basis
        Of each kind of accelerator.
    count : int
        Accelerators in all.
    """
    worst = max(RUNG[basis] for basis in bases)
    return LADDER[max(worst, RUNG[Basis.ANALYTICAL]) if count > 1 else worst]


def _tokens_per_second(prepared: PreparedJob, rate: float) -> float | None:
    tokens = prepared.step.tokens_per_sample
    return None if tokens is None else rate * tokens


def _tightest_memory(prepared: PreparedJob, placement: ResolvedPlacement) -> MemoryEstimate:
    """Return the memory of the accelerator with the least room."""
    profile, job = prepared.step.memory_profile, prepared.job
    estimates = [memory_estimate(profile, kind, job=job) for kind in placement.accelerators]
    return min(estimates, key=lambda memory: memory.capacity_bytes - memory.peak_bytes)


def _warnings(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    memory: MemoryEstimate,
) -> tuple[str, ...]:
    said = [text for prediction in predictions for text in prediction.warnings]
    room = () if memory.fits else (NO_ROOM_WARNING,)
    # Each text once, in the order of first mention.
    return tuple(dict.fromkeys((*said, *placement.warnings, *prepared.warnings, *room)))


#: Said where the peak memory exceeds what an accelerator has.
NO_ROOM_WARNING = (
    "The step needs more memory than the accelerator has; the throughput is what it would reach "
    "if it fitted."
)
