r"""How long a job type computes on one accelerator, as cells that resemble it say.

A job of which little was observed, or nothing on the kind of accelerator asked about, is guessed
badly from its own steps: neither how its time grows with the batch nor how it changes with the
device is known. What other jobs do says more (:mod:`perfmodel.placement.job_types.completion`).
Both are weighed by what they know: with the variances :math:`v_s` of the steps' answer on one
accelerator and :math:`v_c` of the completed cell, computation takes :math:`e^{w (c - s)}` times as
long,

.. math:: w = \frac{u}{u + v_c}, \qquad u = \max(0,\ v_s - v_0) .

Communication and whatever else several accelerators add stay those of the steps, so that the laws
of placements hold. Steps that are sure within :math:`v_0` are left as they are. Both rest on the
same observations: intervals shrink less than two independent answers would allow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job, named_job
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import Calibration
from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.job_types.completion import JobTypeTable
from perfmodel.placement.job_types.job_type_cells import JobTypeCells

#: Standard deviation of a step's logarithm that needs no other word.
_SURE_SD = 0.4
#: Share of the variance that independent answers would take away.
_SHRINKS = 0.3


def with_levels(
    job: Job,
    table: JobTypeTable,
    calibration: Calibration,
    cells: StepCells,
    log_speed: FloatArray,
) -> CalibratedSteps:
    """Return steps as observed ones let them appear, whose computation is that of both ways.

    Parameters
    ----------
    table : JobTypeTable
        What one accelerator takes, of the job and of other job types.
    cells : StepCells
        As guessed, of one machine and one number of micro-batches.
    """
    found = calibration.apply(cells)
    _, first, kinds = np.unique(cells.batch_size, return_index=True, return_inverse=True)
    few = cells.take(first).on_one_accelerator()
    alone = calibration.apply(few)
    unsure = np.maximum(alone.log_sd**2 - _SURE_SD**2, 0.0)
    if not unsure.any():
        return found
    completed = table.complete(_asked(job, few, log_speed[first]))
    micro_batches = job.accumulation_steps
    variance = (np.log(completed.high_s / completed.median_s) / DEVIATIONS) ** 2
    weight = unsure / (unsure + variance)
    apart = np.log(completed.median_s * micro_batches / alone.parts.step_time_s)
    # A cell that was observed needs no other.
    longer = np.where(found.seen, 0.0, (weight * apart)[kinds])
    after = found.log_sd**2 - _SHRINKS * (weight * unsure)[kinds] * ~found.seen
    return CalibratedSteps(
        parts=replace(found.parts, compute_s=found.parts.compute_s * np.exp(longer)),
        seen=found.seen,
        log_sd=np.sqrt(np.maximum(after, np.minimum(found.log_sd, _SURE_SD) ** 2)),
        learned=found.learned,
    )


def _asked(job: Job, cells: StepCells, log_speed: FloatArray) -> JobTypeCells:
    name, _ = named_job(job.job_type or "", job.batch_size, job.mode)
    rows = len(cells)
    nothing, one = np.full(rows, "", dtype=np.str_), np.ones(rows)
    return JobTypeCells(
        job_type=np.full(rows, name),
        batch_size=cells.batch_size / job.accumulation_steps,
        accelerator=cells.machine,
        log_speed=log_speed,
        count=one,
        hosts=one,
        network=nothing,
        log_wire=np.zeros(rows),
        shares=nothing,
        settings=nothing,
        partner_type=nothing,
        partner_batch=one,
    )
