"""What observed steps of a job say about its other placements.

Steps on one accelerator say how long the job computes; the placement is then worked out anew from
that. Steps on several tell computing and communication apart, and both are corrected. Where other
jobs were observed on the same accelerators, their steps are weighed together with those of the
job; of a job that was not observed itself they say what the machine is like.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import Kind, ResolvedPlacement
from perfmodel.estimator.evidence.observed_rows import (
    OBSERVED_JOB,
    cell_alone,
    step_cells,
    weighed_cells,
)
from perfmodel.estimator.evidence.other_jobs import OtherJobs
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import (
    Cells,
    CellStep,
    Predictions,
    Steps,
    StepSource,
    interval,
)
from perfmodel.estimator.placing.columns import ReplicaColumns, machine_word
from perfmodel.estimator.placing.placed import CAPTURED
from perfmodel.graph.job_identity import job_family
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import fitted_prior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.step_parts import StepParts
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import RUNG, Basis

#: Rows that are corrected in one go; more take more memory and no less time.
_AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A job with what its observed steps, and those of other jobs, say.

    Parameters
    ----------
    calibration : Calibration or None
        None where neither the job nor, on the machine it is meant for, another was observed.
    observations : tuple of Observation
        Of the job itself.
    family : str
        Of the job.
    others : OtherJobs or None
        Observed steps of other jobs, which :meth:`on` weighs.
    """

    calibration: Calibration | None
    observations: tuple[Observation, ...]
    family: str = ""
    others: OtherJobs | None = None
    _on: dict[str, tuple[ObservedSteps | None, Self | None]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        core: Core,
        prepared: PreparedJob,
        observations: Sequence[Observation],
        others: OtherJobs | None = None,
    ) -> Self:
        """Calibrate a job.

        Parameters
        ----------
        observations : sequence of Observation
            Of the job; those that name another one join the others.
        others : OtherJobs or None
            Observed steps of any jobs; those of this one do not count.

        Raises
        ------
        InvalidInputError
            An observation that cannot be answered, with a pointer to it.
        """
        family = job_family(prepared.job)
        own, of_others, rows = [], [], []
        for i, seen in enumerate(observations):
            pointer = f"/observations/{i}"
            if seen.job is not None and job_family(seen.job) != family:
                # Said here what is wrong with it: later it would be passed over.
                if seen.job.job_type is None:
                    weighed_cells(core, seen.job, seen, "", pointer)
                of_others.append(seen)
                continue
            cells = weighed_cells(core, prepared.job, seen, OBSERVED_JOB, pointer)
            own.append(replace(seen, job=None))
            rows.append(ObservedSteps.of_one(cells, seen.step_time_s, seen.sync_time_s))
        if of_others:
            others = (others or OtherJobs(core, ())).with_others(of_others)
        return cls(
            calibration=calibrate(ObservedSteps.join(*rows), fitted_prior()) if rows else None,
            observations=tuple(own),
            family=family,
            others=others or None,
        )

    def on(self, machine: str | ResolvedPlacement) -> Self | None:
        """Return what counts on a machine; None where nothing does.

        Parameters
        ----------
        machine : str or ResolvedPlacement
            From :func:`.machine_word`, or where it runs.
        """
        word = machine if isinstance(machine, str) else machine_word(machine)
        if self.others is None:
            return self if self.calibration else None
        beside = self.others.steps(word, self.family)
        known = self._on.get(word)
        if known is None or known[0] is not beside:
            known = self._on[word] = (beside, self._weighed_on(word, beside, self.others))
        return known[1]

    def is_ready_on(self, placement: ResolvedPlacement) -> bool:
        """Return whether :meth:`on` would answer from memory."""
        if self.others is None:
            return True
        word = machine_word(placement)
        if not self.others.is_ready(word, self.family):
            return False
        beside, known = self.others.steps(word, self.family), self._on.get(word)
        if beside is None and self.calibration is None:
            return True
        return known is not None and known[0] is beside

    def with_others(self, others: OtherJobs) -> Self:
        """Return the same job beside others; what did not change is not weighed again."""
        return replace(self, others=others or None, _on=dict(self._on))

    def _weighed_on(
        self, machine: str, beside: ObservedSteps | None, others: OtherJobs
    ) -> Self | None:
        if self.calibration is None:
            shared = others.calibration(machine, self.family)
            return None if shared is None else self._alone_with(shared)
        if beside is None:
            return self._alone_with(self.calibration)
        joined = ObservedSteps.join(self.calibration.observed, beside)
        return self._alone_with(calibrate(joined, fitted_prior()))

    def _alone_with(self, calibration: Calibration) -> Self:
        return replace(self, calibration=calibration, others=None, _on={})

    @property
    def is_alone(self) -> bool:
        """Whether only steps on one accelerator were observed, of the job and of others."""
        if self.calibration is None or not self.observations:
            return False
        return bool(np.all(self.calibration.observed.cells.ranks == 1))

    def single(self, prepared: PreparedJob, kind: Kind, prediction: Prediction) -> Prediction:
        """Return the step on one accelerator as the observations let it appear.

        Parameters
        ----------
        prediction : Prediction
            Without them.
        """
        assert self.calibration is not None
        found = self.calibration.apply(cell_alone(prepared, kind, prediction.time_s))
        low, high = found.interval()
        return replace(
            prediction,
            time_s=float(found.parts.step_time_s[0]),
            low_s=float(low[0]),
            high_s=float(high[0]),
            basis=Basis.CALIBRATED,
            out_of_distribution=False,
        )


class Observed:
    """Captured jobs as observed steps let them appear: a source around another one.

    Steps on one accelerator alone say how long the job computes: placements follow from that.
    Steps on several correct the step on every placement.

    Parameters
    ----------
    observed : sequence of ObservedJob or None
        What is known of each job of the cells.
    """

    def __init__(self, source: StepSource, observed: Sequence[ObservedJob | None]) -> None:
        self._source = source
        self._observed = observed

    def alone(self, cells: Cells) -> Cells:
        """Return cells with the times on one accelerator as steps observed there tell them."""
        columns, placement = cells.columns, next(iter(cells.placements), None)
        kinds = list(placement.kinds) if placement else []
        if columns is not None and len(columns.accelerators[0]) == 1:
            each = {spec.name: spec for (spec,) in columns.accelerators}
            kinds = [Kind(accelerator=spec, count=1) for spec in each.values()]
        predictions = list(cells.predictions)
        for row, observed in enumerate(self._observed):
            if observed is not None:
                known = predictions[row]
                found = self._alone(cells.jobs[row], observed, kinds, known, placement)
                predictions[row] = {**known, **found}
        return replace(cells, predictions=predictions)

    def _alone(
        self,
        prepared: PreparedJob,
        observed: ObservedJob,
        kinds: Sequence[Kind],
        known: Predictions,
        placement: ResolvedPlacement | None,
    ) -> Predictions:
        found = {}
        for kind in kinds:
            name = kind.accelerator.name
            on = observed.on(machine_word(placement) if placement else name)
            if on is not None and on.is_alone and name in known:
                found[name] = on.single(prepared, kind, known[name])
        return found

    def step(self, cell: Cells) -> CellStep:
        """Return the step of a single cell; as :meth:`steps`."""
        (observed,), (placement,) = self._observed, cell.placements
        on = observed.on(machine_word(placement)) if observed else None
        if on is None or on.is_alone:
            return self._source.step(cell)
        return self.steps(cell).at((0, 0))

    def steps(self, cells: Cells) -> Steps:
        """Return the steps of some cells, corrected where observed steps say more than alone."""
        steps = self._source.steps(cells)
        columns = cells.columns
        if columns is None:
            columns = ReplicaColumns.of(cells.placements)
        elif len(columns.accelerators[0]) > 1:
            return steps
        pieces = self._pieces(cells, columns, steps)
        if not pieces:
            return steps
        shape = steps.samples_per_second.shape

        def own(values: Any) -> Any:
            return np.array(np.broadcast_to(values, shape))

        found = replace(
            steps,
            parts=steps.parts.each(own),
            step_time_s=own(steps.step_time_s),
            samples_per_second=own(steps.samples_per_second),
            low=own(steps.low),
            high=own(steps.high),
            half_width=own(steps.half_width),
            rung=own(steps.rung),
        )
        for some in pieces:
            for start in range(0, len(some), _AT_ONCE):
                _correct(found, some[start : start + _AT_ONCE])
        return found

    def _pieces(self, cells: Cells, columns: ReplicaColumns, steps: Steps) -> list[list[_Piece]]:
        """Return the rows to correct; those of one calibration together, which is quicker."""
        names = np.array(columns.machine)
        machines = [(name, np.flatnonzero(names == name)) for name in dict.fromkeys(names.tolist())]
        shared: dict[int, list[_Piece]] = defaultdict(list)
        for row, observed in enumerate(self._observed):
            for name, at in machines if observed is not None else ():
                on = observed.on(name) if observed is not None else None
                if on is None or on.is_alone or on.calibration is None:
                    continue
                chosen = at[np.isfinite(steps.samples_per_second[row, at])]
                if len(chosen):
                    parts = steps.parts.take((row, chosen))
                    cells_of_row = step_cells(cells.jobs[row], parts, columns.take(chosen))
                    piece = _Piece(observed=on, row=row, columns=chosen, cells=cells_of_row)
                    shared[id(on.calibration)].append(piece)
        return list(shared.values())


def with_observed(cells: Cells, observed: Sequence[ObservedJob | None]) -> tuple[StepSource, Cells]:
    """Return what tells the steps of captured jobs, and their cells as steps alone tell them.

    Parameters
    ----------
    observed : sequence of ObservedJob or None
        What is known of each job of the cells.
    """
    if not any(observed):
        return CAPTURED, cells
    source = Observed(CAPTURED, observed)
    return source, source.alone(cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """Some cells of a row, as predicted without observations."""

    observed: ObservedJob
    row: int
    columns: npt.NDArray[np.int64]
    cells: StepCells


def _correct(steps: Steps, pieces: Sequence[_Piece]) -> None:
    """Put corrected cells of one calibration in the place of predicted ones."""
    calibration = pieces[0].observed.calibration
    assert calibration is not None
    joined = StepCells.join([one.cells for one in pieces])
    found = calibration.apply(joined)
    rows = np.repeat([one.row for one in pieces], [len(one.cells) for one in pieces])
    at = rows, np.concatenate([one.columns for one in pieces])
    steps.step_time_s[at] = found.parts.step_time_s
    longer = found.parts.step_time_s / joined.parts.step_time_s
    rate = steps.samples_per_second[at] / longer
    # Links that were not observed stay as sure as they were.
    half_width = np.minimum(DEVIATIONS * found.log_sd, steps.half_width[at])
    low, high = interval(rate, rate, rate, half_width)
    steps.samples_per_second[at], steps.half_width[at] = rate, half_width
    steps.low[at], steps.high[at] = low, high
    for one in fields(StepParts):
        getattr(steps.parts, one.name)[at] = getattr(found.parts, one.name)
    # What others reached makes a prediction better, not an observed one.
    of_itself = np.repeat(
        [bool(one.observed.observations) for one in pieces], [len(one.cells) for one in pieces]
    )
    steps.rung[at] = np.where(of_itself, RUNG[Basis.CALIBRATED], steps.rung[at])
