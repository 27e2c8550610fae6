"""Measured node times, gathered over the classes of equal nodes.

Operator times come from a few steps under a profiler, step times from many steps without one,
and a shared machine drifts between the two. The step time is the better known of both, so the
operator times of a step only say how it is divided: they are scaled to add up to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.node_rows import NodeRows
from perfmodel.predictors.predictor import Sample

#: Operator times are scaled by no more than this factor either way; beyond it they did not
#: belong to the same step.
LARGEST_SCALE = 2.0


@dataclass(frozen=True, kw_only=True)
class ClassTimes:
    """Mean measured time of each class of equal nodes.

    Parameters
    ----------
    mean_s : ndarray, shape (classes,)
        0 where no node of the class was measured.
    measured : ndarray, shape (classes,)
        How many of its nodes were.
    """

    mean_s: FloatArray
    measured: FloatArray


def class_times(sample: Sample, rows: NodeRows) -> ClassTimes:
    """Average the measured times of equal nodes, scaled to add up to the step.

    Equal nodes are repetitions of one experiment, so their mean is a better target than each.
    A node's time then holds its part of the interpreter's overhead as well.

    Parameters
    ----------
    rows : NodeRows
        Distinct nodes of its workload.
    """
    classes = len(rows.quotient.count)
    nodes = np.fromiter(sample.node_times_s.keys(), dtype=np.int64)
    times = np.fromiter(sample.node_times_s.values(), dtype=np.float64)
    owner = rows.quotient.class_of_node[nodes]
    measured = np.bincount(owner, minlength=classes).astype(np.float64)
    total = np.bincount(owner, weights=times * step_scale(sample), minlength=classes)
    return ClassTimes(mean_s=total / np.maximum(measured, 1.0), measured=measured)


def step_scale(sample: Sample) -> float:
    """Return the factor from a sample's operator times to its step time.

    Returns
    -------
    float
        In [1 / LARGEST_SCALE, LARGEST_SCALE]; 1 without operator times.
    """
    total = sum(sample.node_times_s.values())
    if total <= 0:
        return 1.0
    return min(max(sample.step_time_s / total, 1.0 / LARGEST_SCALE), LARGEST_SCALE)
