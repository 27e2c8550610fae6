r"""Learn how much longer steps of scripts take than predicted, from published tables of jobs.

Steps on one accelerator of all jobs of the tables are observations of other jobs. What their
posterior says of the device and of the host of a job that is none of them is the gap, for each kind
of accelerator of the tables, and for all others. So a kind counts by what its jobs differ from
themselves elsewhere, and one job alone moves it little.

How far single jobs lie from it is the spread of jobs that the prior of residuals has learned, times
a factor: that of Student's distribution of four degrees of freedom under which the errors of each
model are most probable, while the gap is learned from the other models and every job on every
cluster counts alike. One in seven lies far beyond all others; an interval that held 90 % of the
errors as they came would be twice as wide in logarithms, for three of 22 jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.unobserved_script import UnobservedScript
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.script_gap import OF_SCRIPTS, ScriptGap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fitted import fitted
from perfmodel.training.placement_fits.fit_calibration import SOURCE, Groups
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.script_rows import (
    Group,
    Measured,
    is_locked,
    predicting_version,
    script_groups,
)

#: Batches of a job on a cluster that count.
_MOST_BATCHES = 6
#: Terms of the prior that tell one job from others.
_OF_JOBS = ("job", "own")
#: Degrees of freedom of errors, and what lies 90 % within in scales: Student's table.
_FREEDOM, _NINETY_PERCENT = 4.0, 2.1318
_ROUNDS = 50
#: A job and a kind of accelerator that no table has.
_NEW = "new"


def fit(data: Path, *, models: Path = Path("models")) -> dict[str, Any]:
    """Fit the gap on every job of the tables but for those that are locked away.

    Parameters
    ----------
    models : Path
        Folder of the trained models that predict single accelerators.
    """
    groups = {g: m for g, m in script_groups(data, models).items() if not is_locked(m.model)}
    alone = steps_alone(groups)
    # What this process has kept of it may be older.
    gap = fit_gap(alone, ResidualPrior.from_dict(fitted("calibration")))
    rows = sum(len(one.steps.step_time_s) for one in alone.values())
    model = predicting_version(models)
    return document("scripts", rounded(gap.to_dict()), SOURCE, rows, model=model)


def steps_alone(groups: Groups) -> dict[Group, Measured]:
    """Return some steps on one accelerator of each job on each cluster, over all its batches."""
    found = {}
    for group, measured in groups.items():
        pooled = measured.steps.pooled()
        rows = np.flatnonzero(pooled.cells.ranks == 1)
        if len(rows):
            ordered = rows[np.argsort(pooled.cells.batch_size[rows], kind="stable")]
            few = np.linspace(0, len(rows) - 1, min(_MOST_BATCHES, len(rows))).astype(np.int64)
            steps = pooled.take(ordered[few])
            named = replace(steps.cells, job=np.full(len(few), measured.model))
            found[group] = measured._replace(
                steps=replace(steps, cells=named), placements=np.full(len(few), "1")
            )
    return found


def fit_gap(alone: Mapping[Group, Measured], prior: ResidualPrior) -> ScriptGap:
    """Learn the gap from steps on one accelerator.

    Parameters
    ----------
    alone : mapping
        From :func:`steps_alone`.
    """
    plain = {field: _spread(prior, field) for field in OF_SCRIPTS}
    gap = _gap(alone, prior, plain)
    models = sorted({one.model for one in alone.values()})
    # Of one model alone nothing can be left out.
    odd = [_odd_without(model, alone, prior, plain) for model in models if len(models) > 1]
    if not odd:
        return gap
    factor = _scale(*np.concatenate(odd, axis=1)) * _NINETY_PERCENT / DEVIATIONS
    return replace(gap, sds={field: factor * sd for field, sd in plain.items()})


def _gap(
    alone: Mapping[Group, Measured], prior: ResidualPrior, sds: Mapping[Field, float]
) -> ScriptGap:
    steps = ObservedSteps.join([one.steps for one in alone.values()])
    posterior = calibrate(steps, prior)
    jobs: dict[str, set[str]] = {}
    for one in alone.values():
        for machine in one.steps.cells.machine.tolist():
            jobs.setdefault(machine, set()).add(one.model)
    return ScriptGap(
        usual=_expected(posterior, _NEW),
        machines={machine: _expected(posterior, machine) for machine in sorted(jobs)},
        jobs={machine: len(jobs[machine]) for machine in sorted(jobs)},
        sds=sds,
    )


def _expected(posterior: Calibration, machine: str) -> dict[Field, float]:
    """Return what is believed of a job that was not observed, on a kind of accelerator."""
    one = np.ones(1)
    cells = StepCells.of_job(
        StepParts.of(one), batch_size=1, ranks=1, hosts=1, largest_share=1, host_s=one,
        job=_NEW, machine=machine, fabric=_NEW,
    )  # fmt: skip
    moved = posterior.residual(cells) - posterior.posterior.prior.neutral(cells)
    return {field: float(moved[field, 0]) for field in OF_SCRIPTS}


def _spread(prior: ResidualPrior, field: Field) -> float:
    """Return how far jobs lie from what all of them share, on a machine."""
    names = [f"{field.name.lower()}.level.{scope}" for scope in _OF_JOBS]
    return float(np.hypot.reduce([prior.sds.get(name, 0.0) for name in names]))


def _odd_without(
    model: str,
    alone: Mapping[Group, Measured],
    prior: ResidualPrior,
    sds: Mapping[Field, float],
) -> FloatArray:
    """Return errors of a model over their standard deviations, and what each counts."""
    others = {group: one for group, one in alone.items() if one.model != model}
    script = UnobservedScript(prior.of_scripts(_gap(others, prior, sds)))
    found = []
    for one in alone.values():
        if one.model == model:
            said = script.apply(one.steps.cells)
            off = np.log(said.parts.step_time_s / one.steps.step_time_s)
            found.append([np.abs(off) / said.log_sd, np.full(len(off), 1 / len(off))])
    return np.concatenate(found, axis=1)


def _scale(values: FloatArray, weights: FloatArray) -> float:
    """Return the most probable scale of Student's distribution."""
    scale = 1.0
    for _ in range(_ROUNDS):
        trust = (_FREEDOM + 1) / (_FREEDOM + (values / scale) ** 2)
        scale = float(np.sqrt(np.sum(weights * trust * values**2) / np.sum(weights)))
    return scale
