r"""Steps that several residuals explain: all of them answer, each as probable as it is.

A step that takes longer than predicted may have a slow device, a slow host or slow loaders, and one
observation cannot tell which. With shares :math:`w_m` and what each residual makes of another step,
:math:`\log T_m` with standard deviation :math:`s_m`,

.. math:: \log T = \sum_m w_m \log T_m, \qquad
          s^2 = \sum_m w_m \left(s_m^2 + (\log T_m - \log T)^2\right).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.correcting.corrected import (
    CalibratedSteps,
    Codes,
    Posterior,
    correct,
)
from perfmodel.placement.calibration.step_cells import StepCells


class Weighed(NamedTuple):
    """One residual that explains the observations.

    Parameters
    ----------
    share : float
        How probable it is beside the others of the job, in (0, 1]; together they are 1.
    """

    share: float
    posterior: Posterior


def correct_weighed(
    jobs: Sequence[Sequence[Weighed]], cells: StepCells, which: Codes | None = None
) -> CalibratedSteps:
    """Correct predicted steps, as :func:`.correct`.

    Parameters
    ----------
    jobs : sequence of sequence of Weighed
        Of each job all that explains its observations.
    which : ndarray of int, shape (rows,), or None
        Which of the jobs each step belongs to; None: the first.
    """
    codes = np.zeros(len(cells), dtype=np.int64) if which is None else which
    most_probable = correct([job[0].posterior for job in jobs], cells, codes)
    several = np.flatnonzero(np.array([len(job) > 1 for job in jobs])[codes])
    if not len(several):
        return most_probable
    pieces = [
        (np.arange(len(several)), _shares(jobs, 0)[codes[several]], most_probable.take(several))
    ]
    for rank in range(1, max(map(len, jobs))):
        has_it = np.array([len(job) > rank for job in jobs])
        rows = np.flatnonzero(has_it[codes[several]])
        found = correct(
            [job[rank].posterior for job in jobs if len(job) > rank],
            cells.take(several[rows]),
            (np.cumsum(has_it) - 1)[codes[several[rows]]],
        )
        pieces.append((rows, _shares(jobs, rank)[codes[several[rows]]], found))
    return most_probable.replaced(several, _together(pieces))


def _shares(jobs: Sequence[Sequence[Weighed]], rank: int) -> FloatArray:
    return np.array([job[rank].share if len(job) > rank else 0.0 for job in jobs])


def _together(pieces: Sequence[tuple[Codes, FloatArray, CalibratedSteps]]) -> CalibratedSteps:
    """Return the weighed mean of answers, each with its rows and what it counts there."""
    first = pieces[0][2]
    log, variance, learned, mean_s = np.zeros((4, len(first.log_sd)))
    for rows, share, one in pieces:
        log[rows] += share * np.log(one.parts.step_time_s)
        learned[rows] += share * one.learned
        mean_s[rows] += share * one.parts.step_time_s
    parts = first.parts.each(np.zeros_like)
    for rows, share, one in pieces:
        off = np.log(one.parts.step_time_s) - log[rows]
        variance[rows] += share * (one.log_sd**2 + off**2)
        weight = share * np.exp(log[rows]) / mean_s[rows]
        for name in fields(parts):
            getattr(parts, name.name)[rows] += weight * getattr(one.parts, name.name)
    return CalibratedSteps(parts=parts, log_sd=np.sqrt(variance), learned=learned, seen=first.seen)
