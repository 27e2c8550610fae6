r"""A global batch over replicas that are not equally fast.

A replica needs :math:`T_r(b) = a_r + c_r b` for a step of :math:`b` samples: fixed work (launches,
the optimizer) and work by sample. The step of the job ends with its slowest replica,

.. math:: T = \max_r\, (a_r + c_r b_r), \qquad \sum_r b_r = B .

The split takes the whole numbers that make :math:`T` smallest: the split in fractions that lets all
finish together, rounded down, and what is left over one by one to the replica that then finishes
first. That is optimal, since no :math:`T_r` falls with its batch.

What is left out: gradients of unequal batches have to be weighted by them, which costs nothing; and
the memory of a replica.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray, IntArray

_HALVINGS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class DealtBatch:
    """A global batch dealt out, and what its step takes.

    Parameters
    ----------
    samples : ndarray of int64, shape (replicas,)
        Batch of each replica; they add up to the global batch.
    times_s : ndarray, shape (replicas,)
        Step time of each replica; 0 for one that gets no sample.
    """

    samples: IntArray
    times_s: FloatArray

    @property
    def step_time_s(self) -> float:
        """Time of the slowest replica."""
        return float(self.times_s.max())


@dataclass(frozen=True, kw_only=True, slots=True)
class AffineSteps:
    """Step times of replicas as affine functions of their batches, shape (replicas,) each.

    Parameters
    ----------
    fixed_s, per_sample_s : ndarray
        Both >= 0, and ``per_sample_s`` > 0.
    """

    fixed_s: FloatArray
    per_sample_s: FloatArray

    def times_s(self, samples: npt.ArrayLike) -> FloatArray:
        """Return the step times at some batches; 0 where there is no sample."""
        batch = np.asarray(samples, dtype=np.float64)
        return np.asarray(np.where(batch > 0, self.fixed_s + self.per_sample_s * batch, 0.0))

    @classmethod
    def through(
        cls, batches: tuple[int, int], first_s: npt.ArrayLike, second_s: npt.ArrayLike
    ) -> AffineSteps:
        """Return the lines through the step times at two batch sizes.

        Where time grows faster than the batch, the line goes through the origin and the second
        point; where it does not grow, it has the least slope that still counts.

        Parameters
        ----------
        batches : tuple of (int, int)
            The smaller first.
        first_s, second_s : array-like, shape (replicas,)
            Step times at them.

        Examples
        --------
        20 ms for 10 samples and 30 ms for 20: 10 ms and 1 ms a sample.

        >>> steps = AffineSteps.through((10, 20), [0.02], [0.03])
        >>> round(float(steps.fixed_s[0]), 6), round(float(steps.per_sample_s[0]), 6)
        (0.01, 0.001)
        """
        small, large = batches
        if not 1 <= small < large:
            raise InvalidInputError(
                f"Two batch sizes, the smaller first, are needed; got {batches}."
            )
        first, second = (
            np.atleast_1d(np.asarray(t, dtype=np.float64)) for t in (first_s, second_s)
        )
        # A time that is flat to within a hundredth still has work by sample.
        least = 0.01 * second / large
        slope = np.clip((second - first) / (large - small), least, second / large)
        return cls(fixed_s=np.maximum(second - slope * large, 0.0), per_sample_s=slope)

    @classmethod
    def with_overhead(
        cls, batch: int, step_s: npt.ArrayLike, overhead_s: npt.ArrayLike = 0.0
    ) -> AffineSteps:
        """Return lines through one step time and a fixed overhead at batch 0."""
        step = np.atleast_1d(np.asarray(step_s, dtype=np.float64))
        fixed = np.minimum(
            np.broadcast_to(np.asarray(overhead_s, dtype=np.float64), step.shape), 0.99 * step
        )
        return cls(fixed_s=fixed, per_sample_s=(step - fixed) / batch)


def proportional_split(global_batch: int, steps: AffineSteps) -> DealtBatch:
    """Deal out a batch so that the step is as short as it can be.

    Returns
    -------
    DealtBatch
        A replica whose fixed time alone is longer than the step gets nothing.

    Raises
    ------
    InvalidInputError
        A batch below one.

    Examples
    --------
    >>> steps = AffineSteps(fixed_s=np.zeros(2), per_sample_s=np.array([1.0, 3.0]))
    >>> split = proportional_split(8, steps)
    >>> split.samples.tolist(), split.step_time_s
    ([6, 2], 6.0)
    """
    if global_batch < 1:
        raise InvalidInputError(
            f"A global batch needs at least one sample; got {global_batch}.",
            pointer="/job/batch_size",
        )
    samples = _whole_samples(steps, _finish_s(global_batch, steps), global_batch)
    # Replicas that finish together round down together: at most one sample each is left over.
    for _ in range(global_batch - int(samples.sum())):
        samples[int(np.argmin(steps.times_s(samples + 1)))] += 1
    return DealtBatch(samples=samples, times_s=steps.times_s(samples))


def _finish_s(global_batch: int, steps: AffineSteps) -> float:
    """Return the latest time by which whole samples do not add up to more than the batch."""
    low, high = 0.0, float((steps.fixed_s + steps.per_sample_s * global_batch).max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        done = int(_whole_samples(steps, middle, global_batch).sum())
        low, high = (low, middle) if done > global_batch else (middle, high)
    return low


def _whole_samples(steps: AffineSteps, time_s: float, most: int) -> IntArray:
    whole = np.floor((time_s - steps.fixed_s) / steps.per_sample_s)
    return np.asarray(np.clip(whole, 0, most), dtype=np.int64)
