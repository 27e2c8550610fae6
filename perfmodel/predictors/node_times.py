"""Measured node times, gathered over the classes of equal nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.node_rows import NodeRows
from perfmodel.predictors.base import Sample

FloatArray = npt.NDArray[np.float64]


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
    """Average the measured times of equal nodes.

    Equal nodes are repetitions of one experiment, so their mean is a better target than each.

    Parameters
    ----------
    sample : Sample
    rows : NodeRows
        Distinct nodes of its workload.

    Returns
    -------
    ClassTimes
    """
    classes = len(rows.quotient.count)
    nodes = np.fromiter(sample.node_times_s.keys(), dtype=np.int64)
    times = np.fromiter(sample.node_times_s.values(), dtype=np.float64)
    owner = rows.quotient.class_of_node[nodes]
    measured = np.bincount(owner, minlength=classes).astype(np.float64)
    total = np.bincount(owner, weights=times, minlength=classes)
    return ClassTimes(mean_s=total / np.maximum(measured, 1.0), measured=measured)
