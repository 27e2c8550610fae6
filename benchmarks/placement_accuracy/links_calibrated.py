"""Answer steps on several accelerators as an answer does that knows another job on the machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.training.placement_rows.data_parallel_rows import DataParallelRow, columns

#: What a host needs to issue one operator, as in answers.
_HOST_S_PER_OPERATOR = 5e-5
_LEAST_WINDOW = 0.05


class CalibratedLinks:
    """Rows of one machine, answered with steps of another job on it and one of the job alone.

    The prior of residuals is the shipped one, which was learned on other tables.

    Parameters
    ----------
    groups : CommGroups
        One row each.
    """

    def __init__(
        self, rows: Sequence[DataParallelRow], groups: CommGroups, known: DataParallelConstants
    ) -> None:
        profiles, self._alone_s, self._measured_s = columns(rows)
        self._rows, self._groups = rows, groups
        stragglers = [known.straggler_of(row.model) for row in rows]
        self._parts = DataParallelCells(profiles, self._alone_s, groups).parts(
            straggler=stragglers, constants=known
        )

    def answer(self, asked: int, shown: Sequence[int]) -> CalibratedSteps:
        """Answer one row by the measured steps of others, and the job's own on one accelerator.

        Parameters
        ----------
        shown : sequence of int
            Rows of another job on the same machine.
        """
        own, others = np.array([asked]), np.array(shown)
        observed = ObservedSteps.join(
            [
                _steps(self._cells(others, "other"), self._measured_s[others]),
                _steps(self._alone(others, "other"), self._alone_s[others]),
                _steps(self._alone(own, "own"), self._alone_s[own]),
            ]
        )
        return calibrate(observed).apply(self._cells(own, "own"))

    def _cells(self, at: IntArray, job: str) -> StepCells:
        shape = self._alone_s.shape
        parts = self._parts.each(lambda part: np.broadcast_to(part, shape)[at])
        groups = self._groups.take(at)
        return self._of(at, parts, groups.ranks, groups.largest_share, job)

    def _alone(self, at: IntArray, job: str) -> StepCells:
        one = np.ones(len(at))
        return self._of(at, StepParts.of(self._alone_s[at]), one, one, job)

    def _of(
        self, at: IntArray, parts: StepParts, ranks: FloatArray, share: FloatArray, job: str
    ) -> StepCells:
        rows = [self._rows[i] for i in at.tolist()]
        nodes = np.array([max(float(row.profile.node_count), 1.0) for row in rows])
        window = np.array([max(float(row.profile.backward_share), _LEAST_WINDOW) for row in rows])
        return StepCells.of_job(
            parts,
            batch_size=[row.record.batch_size for row in rows],
            ranks=ranks,
            hosts=1,
            largest_share=share,
            host_s=nodes * _HOST_S_PER_OPERATOR,
            window_share=window,
            job=job,
            machine=[row.accelerator for row in rows],
            fabric=[str(link) for link in self._groups.take(at).intra_class.tolist()],
        )


def _steps(cells: StepCells, step_time_s: FloatArray) -> ObservedSteps:
    return ObservedSteps(
        cells=cells, step_time_s=step_time_s, sync_time_s=np.full(len(cells), np.nan)
    )
