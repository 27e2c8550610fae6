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

What is believed of links is learned from steps on several accelerators whose synchronisation was
logged: where it was not, whatever else grows with accelerators, such as loading, would be taken for
it. It is the posterior of a job that is none of them on each placement of theirs, as a plane by
least squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.unobserved_script import UnobservedScript
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.script_gap import OF_SCRIPTS, LinkGap, ScriptGap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import as_plain, read_constants
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
#: And cells on several accelerators: within a host, and on several.
_MOST_CELLS = 8
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
    alone, together = steps_alone(groups), steps_together(groups)
    # What this process has kept of it may be older.
    gap = fit_gap(alone, read_constants(ResidualPrior, fitted("calibration")), together)
    rows = sum(len(one.placements) for some in (alone, together) for one in some.values())
    model = predicting_version(models)
    return document("scripts", rounded(as_plain(gap)), SOURCE, rows, model=model)


def steps_alone(groups: Groups) -> dict[Group, Measured]:
    """Return some steps on one accelerator of each job on each cluster, over all its batches."""
    found = {}
    for group, measured in groups.items():
        pooled = measured.steps.pooled()
        rows = np.flatnonzero(pooled.cells.ranks == 1)
        if len(rows):
            ordered = rows[np.argsort(pooled.cells.batch_size[rows], kind="stable")]
            few = np.linspace(0, len(rows) - 1, min(_MOST_BATCHES, len(rows))).astype(np.int64)
            found[group] = _named(measured, pooled.take(ordered[few]))
    return found


def steps_together(groups: Groups) -> dict[Group, Measured]:
    """Return some steps of each job on each cluster within a host, and some on several hosts.

    Those whose synchronisation was logged.
    """
    found = {}
    for index, (group, measured) in enumerate(groups.items()):
        pooled, rng = measured.steps.pooled(), np.random.default_rng(index)
        is_logged = (pooled.cells.ranks > 1) & ~np.isnan(pooled.sync_time_s)
        hosts = np.where(is_logged, pooled.cells.hosts, 0)
        rows = [
            rng.permutation(np.flatnonzero(some))[:_MOST_CELLS] for some in (hosts == 1, hosts > 1)
        ]
        if is_logged.any():
            found[group] = _named(measured, pooled.take(np.sort(np.concatenate(rows))))
    return found


def _named(measured: Measured, steps: ObservedSteps) -> Measured:
    """Return steps of a job that is one job in all tables."""
    cells = replace(steps.cells, job=np.full(len(steps.cells), measured.model))
    placements = np.full(len(steps.cells), "")
    return measured._replace(steps=replace(steps, cells=cells), placements=placements)


def fit_gap(
    alone: Mapping[Group, Measured],
    prior: ResidualPrior,
    together: Mapping[Group, Measured] = MappingProxyType({}),
) -> ScriptGap:
    """Learn the gap from steps on one accelerator, and that of links from those on several.

    Parameters
    ----------
    alone, together : mapping
        From :func:`steps_alone` and :func:`steps_together`.
    """
    plain = {field: _spread(prior, field) for field in OF_SCRIPTS}
    gap = replace(_gap(alone, prior, plain), links=_links(alone, together, prior))
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
    posterior = calibrate(steps, prior, most=len(steps.cells))
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


def _links(
    alone: Mapping[Group, Measured], together: Mapping[Group, Measured], prior: ResidualPrior
) -> dict[str, dict[str, LinkGap]]:
    """Return what steps on several accelerators, beside one, say of a job that is none of them."""
    found: dict[str, dict[str, LinkGap]] = {}
    if not together:
        return found
    beside = [alone[group] for group in together if group in alone]
    steps = ObservedSteps.join([one.steps for one in (*together.values(), *beside)])
    # All of them count, whatever time it takes.
    posterior, seen = calibrate(steps, prior, most=len(steps.cells)), steps.cells
    placements = np.stack([seen.ranks, seen.hosts, seen.largest_share])
    several = seen.ranks > 1
    places = zip(seen.machine[several].tolist(), seen.fabric[several].tolist(), strict=True)
    for machine, fabric in sorted(set(places)):
        rows = several & (seen.machine == machine) & (seen.fabric == fabric)
        there = np.unique(placements[:, rows], axis=1)
        one = np.ones(there.shape[1])
        cells = StepCells.of_job(
            StepParts.of(one), batch_size=1, ranks=there[0], hosts=there[1],
            largest_share=there[2], host_s=one, job=_NEW, machine=machine, fabric=fabric,
        )  # fmt: skip
        moved = posterior.residual(cells) - posterior.posterior.prior.neutral(cells)
        logs = np.vstack([one, np.log(there)]).T
        # Nothing of these is within a host, or all of it.
        level = np.where(cells.hosts == 1, moved[Field.WITHIN], moved[Field.BETWEEN])
        # Where placements do not tell hosts from ranks, the least weights.
        weights = np.linalg.lstsq(logs, moved[Field.COMMUNICATION] + level, rcond=1e-6)[0]
        found.setdefault(machine, {})[fabric] = LinkGap(
            least=tuple(there.min(axis=1).tolist()),
            most=tuple(there.max(axis=1).tolist()),
            communication=tuple(weights.tolist()),
            tail=float(moved[Field.TAIL].mean()),
        )
    return found


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
