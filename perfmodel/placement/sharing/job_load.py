r"""The load that one job puts on an accelerator: what its neighbours on it feel.

The share of its step during which the accelerator works, alone on it, comes from the best facts
at hand:

- a graph and a step time :math:`T`: with the roofline share :math:`x = R / T` of the step, which
  launches, loaders and waiting make small,

  .. math:: u = (1 + c)\, x / (x + c),\qquad c = 0.15;

- steps of one job at several batch sizes: the part of an affine law that grows with the batch,
  :math:`T(b) = a + c b` and :math:`u(b) = c b / (a + c b)`;
- step times on two accelerators, one :math:`\rho` times as fast: the part that got faster,
  :math:`T_1 = a + \rho d` and :math:`T_2 = a + d`, hence :math:`u_1 = \rho d / T_1`.

The first is the roughest: c was set on 28 steps whose shares the other two gave, and is off by 0.17
in the mean (a constant by 0.20).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import Columns, FloatArray, StrArray
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.workload import Workload

#: Roofline share of a step at which the accelerator works for about half of it.
_HALF_BUSY = 0.15
#: No job that runs on an accelerator leaves it wholly idle.
LEAST_SHARE = 0.05
_JOB_TYPE = re.compile(r"(?P<family>.+?)(?: \(batch size (?P<batch>\d+)\))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLoad:
    """What one job does to one accelerator when it is alone there.

    Parameters
    ----------
    step_time_s : float
        Of one step alone, > 0.
    device_share : float
        Share of that time during which the accelerator works, in (0, 1].
    compute_bound_share, memory_bound_share : float
        Shares of the accelerator's working time held up by arithmetic and by memory; both in
        [0, 1] and together at most 1.
    at_peak_share : float
        Share of that working time that arithmetic and memory would take at their peaks, in (0, 1].
        What kernels take beyond, waiting for operands and for each other, goes with the cores.
    family : str or None
        Kind of job whose pairs were measured (``"ResNet-50"``), or None.
    batch_size : int
        Samples of a step, >= 1.

    Raises
    ------
    InvalidInputError
        A number outside its range.
    """

    step_time_s: float
    device_share: float = 1.0
    compute_bound_share: float = 0.5
    memory_bound_share: float = 0.5
    at_peak_share: float = 1.0
    family: str | None = None
    batch_size: int = 1

    def __post_init__(self) -> None:
        shares = (self.device_share, self.compute_bound_share, self.memory_bound_share)
        if not (np.isfinite(self.step_time_s) and self.step_time_s > 0):
            raise InvalidInputError(f"step_time_s must be above 0; got {self.step_time_s}.")
        if not all(0 <= share <= 1 for share in shares) or self.device_share == 0:
            raise InvalidInputError(f"The shares of a load lie in (0, 1]; got {shares}.")
        if not 0 < self.at_peak_share <= 1:
            raise InvalidInputError(f"at_peak_share lies in (0, 1]; got {self.at_peak_share}.")
        if self.compute_bound_share + self.memory_bound_share > 1 + 1e-9:
            raise InvalidInputError(
                "compute_bound_share and memory_bound_share are parts of one time and add up to "
                f"1 at most; got {shares[1]} and {shares[2]}."
            )
        if self.batch_size < 1:
            raise InvalidInputError(f"batch_size must be at least 1; got {self.batch_size}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Loads(Columns):
    """Loads as columns, shape (jobs,) each.

    Parameters
    ----------
    log2_batch : ndarray
        Logarithm of the batch size to base 2.
    families : ndarray of str
        Empty for a job of no measured family.
    """

    step_time_s: FloatArray
    device_share: FloatArray
    log2_batch: FloatArray
    families: StrArray

    @classmethod
    def of(cls, loads: Sequence[JobLoad]) -> Loads:
        """Return the columns of some loads."""
        return cls(
            step_time_s=np.array([load.step_time_s for load in loads]),
            device_share=np.array([load.device_share for load in loads]),
            log2_batch=np.log2([load.batch_size for load in loads]),
            families=np.array([load.family or "" for load in loads], dtype=np.str_),
        )


def job_type_parts(job_type: str) -> tuple[str, int]:
    """Split the name of a job type into its family and batch size.

    Parameters
    ----------
    job_type : str
        ``"ResNet-50 (batch size 64)"``, or a family alone.

    Returns
    -------
    tuple of (str, int)
        Batch size 1 where none is named.

    Examples
    --------
    >>> job_type_parts("ResNet-50 (batch size 64)")
    ('ResNet-50', 64)
    >>> job_type_parts("A3C")
    ('A3C', 1)
    """
    match = _JOB_TYPE.fullmatch(job_type.strip())
    if match is None:
        raise InvalidInputError("A job type needs a name; got an empty text.")
    return match["family"], int(match["batch"] or 1)


def load_of(workload: Workload, step_time_s: float, *, family: str | None = None) -> JobLoad:
    """Return the load of a step whose graph and time alone are known.

    Parameters
    ----------
    step_time_s : float
        Measured or predicted time of the step alone.
    family : str or None
        See :func:`.colocation.family_of`.

    Returns
    -------
    JobLoad
        Shares of compute and memory are by roofline time, as is that at the peaks.
    """
    roofline = node_roofline(workload)
    total_s = max(float(roofline.roofline_s.sum()), 1e-12)
    compute = roofline.compute_s > roofline.memory_s
    compute_bound = min(1.0, float(roofline.roofline_s[compute].sum()) / total_s)
    share = float(device_share(np.array([step_time_s]), np.array([total_s]))[0])
    return JobLoad(
        step_time_s=step_time_s,
        device_share=share,
        at_peak_share=min(1.0, total_s / (share * step_time_s)),
        compute_bound_share=compute_bound,
        memory_bound_share=1.0 - compute_bound,
        family=family,
        batch_size=workload.batch_size,
    )


def device_share(step_time_s: FloatArray, roofline_s: FloatArray) -> FloatArray:
    """Return the share of steps during which the accelerator works, from their graphs.

    Parameters
    ----------
    step_time_s, roofline_s : ndarray
        Time of the step, and the sum of the roofline times of its operators.

    Returns
    -------
    ndarray
        In [``LEAST_SHARE``, 1]; grows with the roofline time, 1 where it is all of the step.

    Examples
    --------
    >>> device_share(np.array([1.0, 1.0]), np.array([0.15, 1.0])).tolist()
    [0.575, 1.0]
    """
    share = roofline_s / step_time_s
    busy = (1 + _HALF_BUSY) * share / (share + _HALF_BUSY)
    return np.asarray(np.clip(busy, LEAST_SHARE, 1.0))


def share_from_batches(batch_size: FloatArray, step_time_s: FloatArray) -> FloatArray:
    """Return the share of steps that grows with the batch, from steps of one job.

    The affine law is fitted to relative errors.

    Parameters
    ----------
    batch_size, step_time_s : ndarray, shape (steps,)
        At least two different batch sizes.

    Returns
    -------
    ndarray, shape (steps,)
        In [``LEAST_SHARE``, 1].

    Examples
    --------
    10 ms and 1 ms a sample: half of a step of 10 samples.

    >>> batches = np.array([10.0, 20.0])
    >>> [round(float(u), 3) for u in share_from_batches(batches, np.array([0.02, 0.03]))]
    [0.5, 0.667]
    """
    rows = np.stack([1 / step_time_s, batch_size / step_time_s], axis=1)
    fixed_s, per_sample_s = np.linalg.lstsq(rows, np.ones(len(batch_size)), rcond=None)[0]
    if fixed_s <= 0:
        return np.ones(len(batch_size))
    growing = np.maximum(per_sample_s, 0) * batch_size
    return np.asarray(np.clip(growing / (fixed_s + growing), LEAST_SHARE, 1.0))


def share_from_kinds(
    step_time_s: FloatArray, other_step_time_s: FloatArray, speed: float
) -> FloatArray:
    """Return the share of steps that another, faster or slower accelerator would scale.

    Parameters
    ----------
    step_time_s, other_step_time_s : ndarray
        Of the same jobs on this accelerator and on the other one.
    speed : float
        How many times as fast the other one computes, > 0 and not 1.

    Returns
    -------
    ndarray
        In [``LEAST_SHARE``, 1].

    Examples
    --------
    9 s here and 2 s where it computes 8 times as fast: 1 s is the host's, 8 s were computed here.

    >>> share_from_kinds(np.array([9.0]), np.array([2.0]), 8.0).round(3).tolist()
    [0.889]
    """
    device_s = (step_time_s - other_step_time_s) / (1 - 1 / speed)
    return np.asarray(np.clip(device_s / step_time_s, LEAST_SHARE, 1.0))
