"""What is answered for job types: by steps that observations correct, else by completion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.job_types.completion import JobTypePrior, JobTypeTable
from perfmodel.training.placement_rows.job_type_records import MeasuredCells

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator


class Answers(NamedTuple):
    """Step times and both ends of their intervals, s, shape (cells,)."""

    median_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray


class Priors(NamedTuple):
    """What is believed beforehand: of whole cells, and of residuals of steps."""

    cells: JobTypePrior
    steps: ResidualPrior | None = None


def answers(known: MeasuredCells, asked: MeasuredCells, priors: Priors) -> Answers:
    """Answer cells of a table by other cells of it, as a user is answered.

    Parameters
    ----------
    known, asked : MeasuredCells
        With their observations.
    """
    found = JobTypeTable(known.cells, known.step_time_s, priors.cells).complete(asked.cells)
    answered = Answers(found.median_s, found.low_s, found.high_s)
    if asked.observations is None or known.observations is None:
        return answered
    for name in np.unique(asked.cells.job_type):
        rows = np.flatnonzero(asked.cells.job_type == name)
        _by_steps(known, asked, rows, priors, answered)
    return answered


def _by_steps(
    known: MeasuredCells,
    asked: MeasuredCells,
    rows: npt.NDArray[np.int64],
    priors: Priors,
    answered: Answers,
) -> None:
    """Overwrite the answers of one job type that its own observed steps give."""
    from perfmodel.estimator.evidence.guessed_rows import is_weighed
    from perfmodel.estimator.evidence.strangers import Strangers
    from perfmodel.estimator.job_types.job_type import ObservedJobType
    from perfmodel.estimator.placing.columns import ReplicaColumns

    assert known.observations is not None and asked.observations is not None
    estimator, seen = _estimator(), known.observations
    name = asked.cells.job_type[rows[0]]
    job = asked.observations[rows[0]].job
    own = seen[known.cells.job_type == name].tolist()
    others: Sequence[Observation] = seen[known.cells.job_type != name].tolist()
    of_type = ObservedJobType.of(estimator.core, job, own, Strangers(estimator.core, others))
    if of_type.own is None:
        return
    of_type = replace(of_type, prior=priors.steps, cells_prior=priors.cells)
    by_machine = defaultdict(list)
    for row in rows.tolist():
        placement = estimator.core.resolve(asked.observations[row].placement)
        if is_weighed(placement, job.mode):
            by_machine["+".join(one.name for one in placement.accelerators)].append(
                (row, placement)
            )
    for pairs in by_machine.values():
        at = [row for row, _ in pairs]
        found = of_type.steps(
            ReplicaColumns.of([placement for _, placement in pairs]),
            batch_size=asked.cells.batch_size[at],
            accumulation_steps=1,
        )
        answered.median_s[at] = found.calibrated.parts.step_time_s
        answered.low_s[at], answered.high_s[at] = found.calibrated.interval()


@cache
def _estimator() -> Estimator:
    """Return an estimator that looks up placements; no model of it is asked."""
    from perfmodel.estimator import Estimator
    from perfmodel.estimator.core.core import NoCaptures, NoModel

    return Estimator(accelerators=Catalog.default(), model=NoModel("none"), graphs=NoCaptures())
