"""The compute and the communication stream of one replica."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets


@dataclass(frozen=True, kw_only=True, slots=True)
class Streams:
    """What the streams of a step add up to, seconds; arrays over cells.

    Parameters
    ----------
    compute_s : ndarray
        Busy time of the compute stream.
    exposed_s : ndarray
        Time by which the step exceeds that.
    communication_s : ndarray
        Busy time of the communication stream.
    """

    compute_s: FloatArray
    exposed_s: FloatArray
    communication_s: FloatArray


def reductions_end_s(rows: GradientBuckets, alone: FloatArray, each_s: FloatArray) -> FloatArray:
    r"""Return when the last bucket has been worked on, beside the backward pass.

    .. math:: e_i = \max(e_{i-1} + m_i c_i, r_i + c_i)

    for groups of :math:`m_i` buckets: the last bucket of a group cannot start before it is ready.

    Parameters
    ----------
    rows : GradientBuckets
        Spread over the cells.
    alone : ndarray, shape (...)
        Time of the step on one accelerator.
    each_s : ndarray, shape (..., groups)
        Time of the collective on one bucket.

    Returns
    -------
    ndarray, shape (...)
        Seconds after the start of the step.
    """
    end = np.zeros(alone.shape)
    backward_end = alone * (1 - rows.optimizer_share)
    for group in range(rows.ready.shape[-1]):
        one, many = each_s[..., group], rows.count[..., group]
        ready = np.minimum(alone * rows.ready[..., group], backward_end)
        end = np.where(many > 0, np.maximum(end + many * one, ready + one), end)
    return end


def replicated_streams(rows: GradientBuckets, alone: FloatArray, each_s: FloatArray) -> Streams:
    """Return the streams of replicas that reduce every bucket beside the last backward pass.

    Parameters
    ----------
    rows, alone, each_s
        As for :func:`reductions_end_s`.
    """
    backward_end = alone * (1 - rows.optimizer_share)
    return Streams(
        compute_s=alone,
        exposed_s=np.maximum(reductions_end_s(rows, alone, each_s) - backward_end, 0.0),
        communication_s=(each_s * rows.count).sum(axis=-1) + np.zeros(alone.shape),
    )
