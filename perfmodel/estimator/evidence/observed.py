"""What observed steps change in the answers of captured jobs.

Steps of the job correct its predicted step, on every placement: those of this cell, then those of
the job on these accelerators, then those on others. Of a job that is said to be a script, and of
which nothing was observed, published scripts say how much longer it takes. Steps of other jobs that
the question tells are weighed together with them, on the machine they ran on. What strangers
reported counts for other jobs of which nothing was observed, as far as they agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.estimator.evidence.correction import Correction
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.evidence.observed_rows import single_step
from perfmodel.estimator.evidence.strangers import SAID, Shift
from perfmodel.estimator.placing.cells import Cells, CellStep, Steps
from perfmodel.estimator.placing.columns import machine_word
from perfmodel.estimator.placing.placed import CAPTURED
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.correcting.single_step import CalibratedStep
from perfmodel.placement.step_parts import StepNumbers
from perfmodel.types import Basis


class Observed:
    """Steps of captured jobs as observed steps let them appear.

    Parameters
    ----------
    observed : sequence of ObservedJob or None
        What is known of each job of the cells.
    """

    def __init__(self, observed: Sequence[ObservedJob | None]) -> None:
        self._observed = observed

    def step(self, cell: Cells) -> CellStep:
        """Return the step of a single cell; as :meth:`steps`."""
        (observed,), (placement,), (prepared,) = self._observed, cell.placements, cell.jobs
        if prepared.job.script and not (observed and observed.observations):
            return self.steps(cell).at((0, 0))
        if observed is None:
            return CAPTURED.step(cell)
        machine = machine_word(placement)
        step, calibration = CAPTURED.step(cell), observed.on(machine)
        if calibration is None:
            shift = observed.shift(machine)
            return _shifted(step, shift, machine) if shift.reporters else step
        asked = single_step(prepared, step.parts, placement, step.slowdowns)
        found = calibration.single_steps.correct(asked)
        if found is not None:
            return _corrected(step, found, observed, machine)
        return self.steps(cell).at((0, 0))

    def steps(self, cells: Cells) -> Steps:
        """Return the steps of some cells, corrected."""
        if not any(self._observed) and not any(prepared.job.script for prepared in cells.jobs):
            return CAPTURED.steps(cells)
        found = Correction()
        corrected = found.add(cells, CAPTURED.steps(cells), self._observed)
        found.apply()
        return corrected


def _corrected(
    step: CellStep, found: CalibratedStep, observed: ObservedJob, machine: str
) -> CellStep:
    """Return a step that was not observed itself with what was found in its place."""
    longer = found.parts.step_time_s / step.step_time_s
    rate, half_width = step.samples_per_second / longer, DEVIATIONS * found.log_sd
    basis, efficiency = step.basis, None
    if observed.observations:
        basis = Basis.CALIBRATED if machine in observed.machines else Basis.TRANSFERRED
        efficiency = 1 / longer
    else:
        # What others reached makes a prediction better, not an observed one.
        half_width = min(half_width, math.log(step.high / step.low) / 2)
    return _moved(step, found.parts, rate, half_width, basis=basis, efficiency=efficiency)


def _shifted(step: CellStep, shift: Shift, machine: str) -> CellStep:
    """Return a step moved as far as strangers agree; as :func:`_shift`, on plain numbers."""
    before, longer, slower = step.parts, math.exp(shift.compute), math.exp(shift.communication)
    parts = StepNumbers(
        before.compute_s * longer,
        before.exposed_communication_s * slower,
        before.input_stall_s,
        before.overhead_s * longer,
        before.communication_s * slower,
    )
    factor = parts.step_time_s / before.step_time_s
    moved = math.log(factor)
    half_width = math.hypot(math.log(step.high / step.low) / 2, moved)
    said = (shift.said(machine, factor),) if abs(moved) > SAID else ()
    rate = step.samples_per_second / factor
    return _moved(step, parts, rate, half_width, basis=step.basis, said=said)


def _moved(
    step: CellStep,
    parts: StepNumbers,
    rate: float,
    half_width: float,
    *,
    basis: Basis,
    efficiency: float | None = None,
    said: tuple[str, ...] = (),
) -> CellStep:
    return CellStep(
        parts=parts, step_time_s=parts.step_time_s, samples_per_second=rate,
        low=rate * math.exp(-half_width), high=rate * math.exp(half_width), half_width=half_width,
        basis=basis, warnings=(*step.warnings, *said), nearest=step.nearest,
        neighbours=step.neighbours, neighbour_bytes=step.neighbour_bytes,
        slowdowns=step.slowdowns, efficiency=efficiency,
    )  # fmt: skip
