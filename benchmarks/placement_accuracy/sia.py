"""Judge calibration on Sia's steps: few placements of a job are observed, all others are asked.

Rows and calibration are those of an answer, and every job is said to be a script, as Sia's adapter
says (``perfmodel/adapters/sia_jobs.py``). Nested: the prior that answers for a job was fitted on
steps of other jobs alone, and what scripts take beyond theirs on other jobs on other clusters. What
a line observes of the job itself, of other jobs on the cluster and of the job on other clusters is
said in its title. Every question is asked for several random choices of what is observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from placement_accuracy.line import Line

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps
from perfmodel.placement.calibration.correcting.unobserved_script import UnobservedScript
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.pollux import fit_pollux
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.script_gap import ScriptGap
from perfmodel.training.placement_fits.fit_calibration import fit_prior
from perfmodel.training.placement_fits.fit_scripts import fit_gap, steps_alone, steps_together
from perfmodel.training.placement_rows.script_rows import Group, Measured, is_locked, script_groups

Groups = Mapping[Group, Measured]

_DRAWS = 4
_STEPS = 12
#: Steps taken of each other job on the cluster, and of the job on each other cluster.
_OTHER_ROWS = 24


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is observed and what is asked.

    Parameters
    ----------
    name, title : str
        As in :class:`Line`.
    observe : callable
        From the steps of a job on a cluster, a draw and a generator to observed and asked rows.
    cluster_known : bool
        Steps of other jobs on the cluster are observed, too.
    elsewhere_known : bool
        Steps of the job on other clusters are observed, too.
    """

    name: str
    title: str
    observe: Callable[[Measured, int, np.random.Generator], tuple[IntArray, IntArray]]
    cluster_known: bool = False
    elsewhere_known: bool = False
    target: float | None = None
    note: str = ""


def evaluate(data: Path, *, fast: bool = False, models: Path = Path("models")) -> list[Line]:
    """Judge every question.

    Parameters
    ----------
    fast : bool
        One draw, and priors that were not fitted at all.
    models : Path
        Folder of the trained models that predict single accelerators.

    Returns
    -------
    list of Line
        Rows of all draws, one after the other.
    """
    groups = predicted_groups(data, models)
    priors = sia_priors(groups, steps=0 if fast else _STEPS)
    scripts = priors_of_scripts(groups, priors)
    return judge({g: groups[g] for g in scripts}, scripts, draws=1 if fast else _DRAWS)


@cache
def predicted_groups(data: Path, models: Path) -> Groups:
    """Return the jobs of the tables, each step predicted once in a process."""
    return script_groups(data, models)


def priors_of_scripts(
    groups: Groups, priors: Mapping[str, ResidualPrior]
) -> dict[Group, ResidualPrior]:
    """Return a prior of scripts for each job of Sia on a cluster.

    The gap was learned on other models and other clusters, the locked ones aside.

    Parameters
    ----------
    priors : mapping
        Of each job of Sia; as of :func:`sia_priors`.
    """
    learned = {g: m for g, m in groups.items() if not is_locked(m.model)}
    alone, together = steps_alone(learned), steps_together(learned)

    def gap(group: Group) -> ScriptGap:
        model, prior = groups[group].model, priors[group.job]
        others, theirs = (
            {g: m for g, m in some.items() if m.model != model and g.cluster != group.cluster}
            for some in (alone, together)
        )
        return fit_gap(others, prior, theirs)

    return {g: priors[g.job].of_scripts(gap(g)) for g in groups if g.job in priors}


def sia_priors(groups: Groups, *, steps: int) -> dict[str, ResidualPrior]:
    """Return a prior for each job of Sia, fitted on all jobs of other models.

    Parameters
    ----------
    groups : mapping
        All jobs of the tables, Gavel's among them.
    """
    learned = {g: m for g, m in groups.items() if not is_locked(m.model)}
    asked = {g.job: m.model for g, m in groups.items() if g.job.startswith("sia/")}
    return {
        job: fit_prior({g: m for g, m in learned.items() if m.model != model}, steps=steps)
        for job, model in sorted(asked.items())
    }


def judge(groups: Groups, priors: Mapping[Group, ResidualPrior], *, draws: int) -> list[Line]:
    """Return a line for every question, answered by the prior of scripts of each job."""
    return [_line(question, groups, priors, draws) for question in QUESTIONS]


def _line(
    question: Question, groups: Groups, priors: Mapping[Group, ResidualPrior], draws: int
) -> Line:
    answers = [
        _answer(question, group, groups, priors[group], draw)
        for group in groups
        for draw in range(draws)
    ]
    columns = {
        name: np.concatenate([answer.columns[name] for answer in answers])
        for name in answers[0].columns
    }
    sizes = [len(answer.columns["measured"]) for answer in answers]
    jobs = np.repeat([f"{a.group.job}@{a.group.cluster}/{a.draw}" for a in answers], sizes)
    return Line(
        name=question.name,
        title=question.title,
        measured=columns.pop("measured"),
        predicted=columns.pop("predicted"),
        low=columns.pop("low"),
        high=columns.pop("high"),
        groups=np.repeat([a.group.cluster for a in answers], sizes).tolist(),
        jobs=jobs.tolist(),
        baselines=columns,
        target=question.target,
        note=question.note,
    )


@dataclass(frozen=True, kw_only=True)
class _Answer:
    group: Group
    draw: int
    columns: dict[str, FloatArray]


def _answer(
    question: Question, group: Group, groups: Groups, prior: ResidualPrior, draw: int
) -> _Answer:
    rng = np.random.default_rng([draw, *group.job.encode(), *group.cluster.encode()])
    steps = groups[group].steps
    seen, asked = question.observe(groups[group], draw, rng)
    own, hidden = [steps.take(seen)] if len(seen) else [], steps.take(asked)
    others = _steps_of_others(question, group, groups, rng)
    calibrated = _calibrated([*own, *others], hidden, prior)
    low, high = calibrated.interval(DEVIATIONS)
    columns = {
        "measured": hidden.step_time_s,
        "predicted": calibrated.parts.step_time_s,
        "low": low,
        "high": high,
        "no observation": hidden.cells.parts.step_time_s,
        "Pollux's form": _pollux(own, hidden),
        "linear scaling": _linear(own, hidden),
    }
    return _Answer(group=group, draw=draw, columns=columns)


def _steps_of_others(
    question: Question, group: Group, groups: Groups, rng: np.random.Generator
) -> list[ObservedSteps]:
    chosen = []
    for other, measured in groups.items():
        beside = question.cluster_known and other.cluster == group.cluster
        elsewhere = question.elsewhere_known and other.job == group.job
        if other != group and (beside or elsewhere):
            rows = rng.choice(len(measured.placements), _OTHER_ROWS, replace=False)
            chosen.append(measured.steps.take(np.sort(rows)))
    return chosen


def _calibrated(
    observed: Sequence[ObservedSteps], hidden: ObservedSteps, prior: ResidualPrior
) -> CalibratedSteps:
    known = calibrate(ObservedSteps.join(observed), prior) if observed else UnobservedScript(prior)
    return known.apply(hidden.cells)


def _pollux(own: Sequence[ObservedSteps], hidden: ObservedSteps) -> FloatArray:
    if not own:
        return np.full(len(hidden.cells), np.nan)
    seen, asked = own[0].cells, hidden.cells
    alone = own[0].step_time_s - np.where(seen.ranks > 1, own[0].sync_time_s, 0.0)
    fitted = fit_pollux(seen.hosts, seen.ranks, seen.batch_size, own[0].step_time_s, alone)
    return fitted.step_time_s(asked.hosts, asked.ranks, asked.batch_size)


def _linear(own: Sequence[ObservedSteps], hidden: ObservedSteps) -> FloatArray:
    """Answer the observed step of the nearest batch on the fewest accelerators."""
    if not own:
        return np.full(len(hidden.cells), np.nan)
    seen, asked = own[0].cells, hidden.cells
    few = np.flatnonzero(seen.ranks == seen.ranks.min())
    batch = np.log(seen.batch_size[few])
    nearest = np.abs(np.log(asked.batch_size)[:, None] - batch).argmin(axis=1)
    return np.asarray(own[0].step_time_s[few[nearest]])


def _placements(count: int, batches: int | None = None) -> Callable[..., tuple[IntArray, IntArray]]:
    """Observe some placements at random, all of their batch sizes or a few."""

    def observe(
        measured: Measured, draw: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        kinds = np.unique(measured.placements)
        chosen = rng.choice(kinds, count, replace=False).tolist()
        return _of(measured, chosen, batches, rng)

    return observe


def _planned(measured: Measured, draw: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Observe a full host, a few accelerators spread unevenly, and the whole cluster."""
    if (measured.placements == "4444").any():
        wanted = ["4", "112", "4444"]
    else:
        wanted = ["8" if (measured.placements == "8").any() else "7", "14", "88"]
    return _of(measured, wanted, None, rng)


def _of(
    measured: Measured, chosen: Sequence[str], batches: int | None, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    seen = [np.flatnonzero(measured.placements == one) for one in chosen]
    if batches is not None:
        seen = [rng.choice(rows, min(batches, len(rows)), replace=False) for rows in seen]
    asked = np.flatnonzero(~np.isin(measured.placements, chosen))
    return np.concatenate([np.empty(0, dtype=np.int64), *seen]), asked


def _cells(count: int) -> Callable[..., tuple[IntArray, IntArray]]:
    """Observe some cells at random."""

    def observe(
        measured: Measured, draw: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        order = rng.permutation(len(measured.placements))
        return order[:count], np.sort(order[count:])

    return observe


_ALL_BATCHES = "All batch sizes of an observed placement are observed."

QUESTIONS = (
    Question(
        name="sia-3-observed",
        title="Sia, three placements of the job observed on the cluster, other jobs there as well",
        observe=_placements(3),
        cluster_known=True,
        target=0.05,
        note=_ALL_BATCHES,
    ),
    Question(
        name="sia-3-observed-alone",
        title="Sia, three placements of the job observed on the cluster, nothing else",
        observe=_placements(3),
        target=0.05,
        note=_ALL_BATCHES,
    ),
    Question(
        name="sia-3-planned",
        title="Sia, three placements that were chosen on purpose, other jobs there as well",
        observe=_planned,
        cluster_known=True,
        target=0.05,
        note=_ALL_BATCHES,
    ),
    Question(
        name="sia-3-two-batches",
        title="Sia, three placements observed with two batch sizes each, other jobs as well",
        observe=_placements(3, batches=2),
        cluster_known=True,
        target=0.05,
    ),
    Question(
        name="sia-12-observed",
        title="Sia, twelve placements of the job observed on the cluster, other jobs as well",
        observe=_placements(12),
        cluster_known=True,
        note=_ALL_BATCHES,
    ),
    Question(
        name="sia-none-observed",
        title="Sia, the job observed on other clusters only, other jobs on this one",
        observe=_placements(0),
        cluster_known=True,
        elsewhere_known=True,
        target=0.12,
    ),
    Question(
        name="sia-others-observed",
        title="Sia, the job never observed, other jobs on this cluster",
        observe=_placements(0),
        cluster_known=True,
        note="What stored observations of other jobs say of a new one.",
    ),
    Question(
        name="sia-none-observed-new-cluster",
        title="Sia, the job observed on other clusters only, nothing known of this one",
        observe=_placements(0),
        elsewhere_known=True,
        target=0.12,
    ),
    *(
        Question(
            name=f"sia-{count}-cells",
            title=f"Sia, {count} cells of the job observed on the cluster, nothing else",
            observe=_cells(count),
        )
        for count in (0, 1, 3, 10)
    ),
)
