r"""Goodput: progress of training per second, as Pollux defines it, and the batch that gains most.

A step on :math:`M` samples makes as much progress towards the optimum as :math:`M E(M)` samples
of training at the initial batch :math:`M_0`, with the statistical efficiency

.. math:: E(M) = \frac{\varphi + M_0}{\varphi + M},

where the gradient noise scale :math:`\varphi` is that of the job now: its gradients' variance,
scaled to one sample, over their squared norm. Then

.. math:: GOODPUT = \frac{M}{T(M)}\, E(M) .

The noise scale is the job's to report; it grows during training and nothing here predicts it.

Reference: Qiao et al., Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning,
OSDI 2021; McCandlish et al., An Empirical Model of Large-Batch Training, 2018 (the noise scale).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.client.answers import Batch
from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray, IntArray

#: From samples of a replica and micro-batch, and micro-batches of a step, to step times; infinite
#: where a step does not fit.
StepTimes = Callable[[IntArray, IntArray], FloatArray]

#: Candidates of one replica's micro-batch: enough that neighbours differ by a few per cent.
_CANDIDATES = 96
#: Micro-batches beyond which accumulating more is not tried.
MOST_ACCUMULATION = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchAdaptation:
    """What a job says about the batches that it may be trained with.

    Parameters
    ----------
    gradient_noise_scale : float
        Samples, >= 0.
    initial_batch_size : int
        Global batch that the job's learning rate was chosen for, >= 1.
    batch_size_bounds : tuple of (int, int)
        Smallest and largest global batch allowed.
    most_samples : tuple of (int, int) or None
        Largest micro-batch of a replica that fits its memory, of a step of one and of a step of
        several, whose gradients wait for each other; 0 where none fits.
    most_accumulation : int
        Most micro-batches of a step, >= 1.

    Raises
    ------
    InvalidInputError
        A number outside its range.
    """

    gradient_noise_scale: float
    initial_batch_size: int
    batch_size_bounds: tuple[int, int]
    most_samples: tuple[int, int] | None = None
    most_accumulation: int = MOST_ACCUMULATION

    def __post_init__(self) -> None:
        low, high = self.batch_size_bounds
        noise = self.gradient_noise_scale
        _require(np.isfinite(noise) and noise >= 0, "gradient_noise_scale", noise, "at least 0")
        first, most, together = self.initial_batch_size, self.most_samples, self.most_accumulation
        _require(first >= 1, "initial_batch_size", first, "at least 1")
        _require(1 <= low <= high, "batch_size_bounds", [low, high], "1 or more, smallest first")
        _require(together >= 1, "most_accumulation", together, "at least 1")
        _require(most is None or max(most) >= 1, "most_samples", most, "at least 1")


def statistical_efficiency(
    global_batch: npt.ArrayLike, noise: npt.ArrayLike, initial_batch: npt.ArrayLike
) -> FloatArray:
    """Return the progress of a sample in a batch over that of one in the initial batch.

    Parameters
    ----------
    global_batch, initial_batch : array-like
        Samples, > 0.
    noise : array-like
        Gradient noise scale, samples, >= 0.

    Returns
    -------
    ndarray
        1 at the initial batch; falls with the batch, rises with the noise beyond it.

    Examples
    --------
    >>> float(statistical_efficiency(300, 100, 100))
    0.5
    """
    phi, first = np.asarray(noise, dtype=np.float64), np.asarray(initial_batch, dtype=np.float64)
    return np.asarray((phi + first) / (phi + np.asarray(global_batch, dtype=np.float64)))


def best_batch(adaptation: BatchAdaptation, replicas: int, step_times: StepTimes) -> Batch:
    """Return the batch within bounds with the greatest goodput.

    Micro-batches are tried on a geometric grid of whole numbers with both bounds, and each number
    of micro-batches from 1 on; the step times of all candidates are asked for in one call.

    Parameters
    ----------
    replicas : int
        Data-parallel replicas, >= 1.
    step_times : callable
        From micro-batch and accumulation, shape (candidates,) each, to step times in seconds.

    Returns
    -------
    Batch
        Of equals, the one with the smaller batch.

    Raises
    ------
    InvalidInputError
        No micro-batch of whole samples lies within the bounds, or none of them fits.
    """
    batch, accumulation = candidates(adaptation, replicas)
    total = batch * accumulation * replicas
    time_s = np.asarray(step_times(batch, accumulation), dtype=np.float64)
    if not np.isfinite(time_s).any():
        low, high = adaptation.batch_size_bounds
        raise InvalidInputError(
            f"Every batch between {low} and {high} runs out of memory on {replicas} replicas. "
            "Widen batch_size_bounds or take accelerators with more memory.",
            pointer="/job/adaptation/batch_size_bounds",
        )
    noise, first = adaptation.gradient_noise_scale, adaptation.initial_batch_size
    rate, efficiency = total / time_s, statistical_efficiency(total, noise, first)
    gain = rate * efficiency
    best = int(np.argmax(gain))
    return Batch(
        goodput=float(gain[best]),
        samples_per_second=float(rate[best]),
        efficiency=float(efficiency[best]),
        batch_size=int(batch[best]),
        accumulation_steps=int(accumulation[best]),
        global_batch_size=int(total[best]),
        step_time_s=float(time_s[best]),
    )


def candidates(adaptation: BatchAdaptation, replicas: int) -> tuple[IntArray, IntArray]:
    """Return every micro-batch and accumulation that is tried, by size of the global batch.

    Returns
    -------
    tuple of ndarray of int64, shape (candidates,)
        Samples of a replica's micro-batch, and micro-batches of a step.
    """
    low, high = adaptation.batch_size_bounds
    columns = []
    for accumulation in range(1, adaptation.most_accumulation + 1):
        parts = replicas * accumulation
        least, most = -(-low // parts), high // parts
        if adaptation.most_samples is not None:
            most = min(most, adaptation.most_samples[accumulation > 1])
        if 1 <= least <= most:
            grid = np.unique(np.rint(np.geomspace(least, most, _CANDIDATES)).astype(np.int64))
            columns.append(np.stack([grid, np.full(len(grid), accumulation)]))
    if not columns:
        raise InvalidInputError(
            f"No batch between {low} and {high} can be dealt out to {replicas} replicas in whole "
            f"samples, {max(adaptation.most_samples or (0,)) or 'any number'} at most at once. "
            "Widen batch_size_bounds or take fewer replicas.",
            pointer="/job/adaptation/batch_size_bounds",
        )
    batch, accumulation_steps = np.concatenate(columns, axis=1)
    order = np.lexsort((accumulation_steps, batch * accumulation_steps))
    return batch[order], accumulation_steps[order]


def _require(holds: bool | np.bool_, name: str, got: object, wanted: str) -> None:
    if not holds:
        raise InvalidInputError(
            f"{name} must be {wanted}; got {got}.", pointer=f"/job/adaptation/{name}"
        )
