"""Replicas of a job in data parallel: from the time of one accelerator to the step of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perfmodel.placement.data_parallel.data_parallel import data_parallel_parts
from perfmodel.placement.data_parallel.gathered_pass import gathered_pass_parts
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.step_parts import StepParts
from perfmodel.types import Mode

FloatArray = npt.NDArray[np.float64]

#: Half width in logarithms of the time that communication adds, where its links were fitted; of
#: data-parallel steps left out, and of a step as a whole.
OF_COMMUNICATION, OF_SCALING = 0.45, 0.05


def wait_for_each_other(mode: Mode, zero_stage: int) -> bool:
    """Tell whether replicas finish together: those that train, or hold parts of the parameters.

    Parameters
    ----------
    zero_stage : int
        In inference there are neither gradients nor an optimizer, so that stages 1 and 2 share
        nothing.
    """
    return mode is Mode.TRAINING or zero_stage == 3


def replica_parts(
    times_s: Sequence[FloatArray],
    groups: CommGroups,
    buckets: GradientBuckets,
    *,
    mode: Mode,
    zero_stage: int = 0,
    accumulation_steps: int = 1,
    straggler: npt.ArrayLike | None = None,
) -> StepParts:
    """Return the parts of the steps of equal batches on accelerators of some kinds.

    Parameters
    ----------
    times_s : sequence of ndarray
        Step time of one replica on each kind, seconds; of one shape.
    groups : CommGroups
        All accelerators of each cell; broadcasts against the times.
    buckets : GradientBuckets
        One job, or one for each row of the times.
    straggler : array_like or None
        Relative spread of the ranks' times, which broadcasts against the times.

    Returns
    -------
    StepParts
        Replicas of inference that hold all parameters do not wait for each other: the slowest is
        stated.
    """
    slowest = np.asarray(np.maximum.reduce(list(times_s)))
    # One rank shares nothing; left out early, since most cells of some schedulers are such.
    if np.all(groups.ranks == 1) or not wait_for_each_other(mode, zero_stage):
        return StepParts.of(slowest)
    if mode is Mode.INFERENCE:
        return gathered_pass_parts(buckets, slowest, groups)
    return data_parallel_parts(
        buckets,
        slowest,
        groups,
        zero_stage=zero_stage,
        accumulation_steps=accumulation_steps,
        straggler=straggler,
    )


def throughput(
    times_s: Sequence[FloatArray],
    counts: Sequence[FloatArray | float],
    step_time_s: FloatArray,
    *,
    mode: Mode,
    samples: FloatArray | float,
    zero_stage: int = 0,
) -> FloatArray:
    """Return samples per second of all replicas.

    Parameters
    ----------
    times_s : sequence of ndarray
        Step time of one replica on each kind, alone.
    counts : sequence
        Replicas on each kind.
    step_time_s : ndarray
        Step of the whole job; what it takes beyond the slowest replica every replica of inference
        takes too.
    samples : ndarray or float
        Samples of one replica and step.

    Examples
    --------
    Two accelerators that need 0.1 s and one that needs 0.2 s, for 8 samples each: a training step
    takes 0.2 s for 24 samples; serving gives 2 * 80 + 40 samples/s.

    >>> times = [np.array([0.1]), np.array([0.2])]
    >>> step = np.array([0.2])
    >>> throughput(times, [2, 1], step, mode=Mode.TRAINING, samples=8).tolist()
    [120.0]
    >>> throughput(times, [2, 1], step, mode=Mode.INFERENCE, samples=8).tolist()
    [200.0]
    """
    if wait_for_each_other(mode, zero_stage):
        replicas = np.asarray(np.add.reduce([np.asarray(c, dtype=np.float64) for c in counts]))
        return np.asarray(replicas * samples / step_time_s)
    beyond = step_time_s - np.maximum.reduce(list(times_s))
    rates = [c * samples / (time + beyond) for c, time in zip(counts, times_s, strict=True)]
    return np.asarray(np.add.reduce(rates))


def half_width(parts: StepParts, several: npt.NDArray[np.bool_] | bool) -> FloatArray:
    """Return the half width in logarithms that scaling to several accelerators adds."""
    added = parts.exposed_communication_s + parts.overhead_s
    share = added / parts.step_time_s
    wide = np.hypot(OF_SCALING, OF_COMMUNICATION * share)
    return np.asarray(np.where(several, wide, 0.0))
