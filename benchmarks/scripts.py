"""Judge what is answered of jobs that are said to be scripts, on Sia's and Gavel's tables.

    python benchmarks/scripts.py --data FOLDER [--locked]

What scripts take beyond their steps is fitted without the model that is judged, and without those
that are locked away. (What single jobs differ by, the prior of residuals, is the shipped one.)
Every job on every cluster counts alike, with some steps on one accelerator, on several of one host
and on several hosts. Of each is observed

- ``nothing``;
- ``one``: a single other cell of the job on this kind of accelerator;
- ``alone``: a single other cell of the job on one accelerator of this kind;
- ``elsewhere``: a single cell of the job on another kind;

and three answers stand beside each other: as predicted, without any statement, and as a script. The
first way ends with what a scheduler compares: steps on one kind over those on another.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perfmodel.features.arrays import StrArray
from perfmodel.intervals import DEVIATIONS
from perfmodel.placement.calibration.calibration import CalibratedSteps, calibrate
from perfmodel.placement.calibration.correcting.unobserved_script import UnobservedScript
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.script_gap import ScriptGap
from perfmodel.training.placement_fits.fit_scripts import (
    fit_gap,
    steps_alone,
    steps_together,
)
from perfmodel.training.placement_rows.script_rows import Group, Measured, is_locked, script_groups

WAYS = ("nothing", "one", "alone", "elsewhere")
#: Where steps run, and how many are asked of a job on a cluster there.
ALONE, WITHIN, HOSTS = "on one accelerator", "within a host", "on several hosts"
_ASKED = 6
_Groups = Mapping[Group, Measured]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question.

    Parameters
    ----------
    off : mapping of str to float
        Logarithm of answered over measured time, by what was said.
    inside : bool
        Whether the interval of the script holds the measured time.
    width : float
        High over low end of it.
    """

    group: Group
    machine: str
    where: str
    off: Mapping[str, float]
    inside: bool
    width: float


def named_by_model(groups: _Groups) -> dict[Group, Measured]:
    """Return the steps with the model as the word for their job, whatever table they are from."""
    found = {}
    for group, one in groups.items():
        pooled = one.steps.pooled()
        cells = replace(pooled.cells, job=np.full(len(pooled.cells), one.model))
        digits = np.full(len(cells), "")
        found[group] = one._replace(steps=replace(pooled, cells=cells), placements=digits)
    return found


def gaps_without(groups: _Groups, prior: ResidualPrior) -> dict[str, ScriptGap]:
    """Return for each model what the others, those that are locked away aside, say of scripts."""
    learned = {group: one for group, one in groups.items() if not is_locked(one.model)}
    alone, together = steps_alone(learned), steps_together(learned)

    def without(model: str) -> ScriptGap:
        others, theirs = (
            {group: one for group, one in some.items() if one.model != model}
            for some in (alone, together)
        )
        return fit_gap(others, prior, theirs)

    # Nothing is left out for one that is locked away.
    of_all = without("")
    models = sorted({one.model for one in groups.values()})
    return {model: of_all if is_locked(model) else without(model) for model in models}


def answers(
    groups: _Groups, gaps: Mapping[str, ScriptGap], prior: ResidualPrior, way: str, *, locked: bool
) -> Iterator[Answered]:
    """Ask about some steps of every job on every cluster."""
    for group, one in groups.items():
        if is_locked(one.model) != locked:
            continue
        rng = np.random.default_rng(list(f"{group}".encode()))
        scripts = prior.of_scripts(gaps[one.model])
        elsewhere = [
            other.steps
            for at, other in groups.items()
            if other.model == one.model and at.cluster != group.cluster
        ]
        where = _where(one.steps)
        for place in (ALONE, WITHIN, HOSTS):
            for row in rng.permutation(np.flatnonzero(where == place))[:_ASKED].tolist():
                asked = one.steps.take(np.array([row]))
                seen = _seen(way, one.steps, row, elsewhere, rng)
                if seen is not None or way == "nothing":
                    yield _ask(group, asked, seen, prior, scripts)


def _where(steps: ObservedSteps) -> StrArray:
    cells = steps.cells
    return np.where(cells.ranks == 1, ALONE, np.where(cells.hosts == 1, WITHIN, HOSTS))


def _seen(
    way: str,
    steps: ObservedSteps,
    row: int,
    elsewhere: Sequence[ObservedSteps],
    rng: np.random.Generator,
) -> ObservedSteps | None:
    if way == "nothing":
        return None
    if way in ("one", "alone"):
        places = (ALONE,) if way == "alone" else (ALONE, WITHIN, HOSTS)
        others = [at for at in np.flatnonzero(np.isin(_where(steps), places)) if at != row]
        return steps.take(np.array([rng.choice(others)])) if others else None
    if not elsewhere:
        return None
    there = elsewhere[int(rng.integers(len(elsewhere)))]
    return there.take(np.array([rng.integers(len(there.step_time_s))]))


def _ask(
    group: Group,
    asked: ObservedSteps,
    seen: ObservedSteps | None,
    prior: ResidualPrior,
    scripts: ResidualPrior,
) -> Answered:
    cells, measured_s = asked.cells, float(asked.step_time_s[0])
    script: CalibratedSteps
    if seen is None:
        script = UnobservedScript(scripts).apply(cells)
        unsaid_s = float(cells.parts.step_time_s[0])
    else:
        script = calibrate(seen, scripts).apply(cells)
        unsaid_s = float(calibrate(seen, prior).apply(cells).parts.step_time_s[0])
    times = {
        "predicted": float(cells.parts.step_time_s[0]),
        "unsaid": unsaid_s,
        "script": float(script.parts.step_time_s[0]),
    }
    off = {name: float(np.log(time_s / measured_s)) for name, time_s in times.items()}
    half_width = DEVIATIONS * float(script.log_sd[0])
    return Answered(
        group=group,
        machine=str(cells.machine[0]),
        where=str(_where(asked)[0]),
        off=off,
        inside=abs(off["script"]) <= half_width,
        width=float(np.exp(2 * half_width)),
    )


def report(name: str, found: Sequence[Answered]) -> None:
    """Print one line: means over jobs on clusters, of errors and of their logarithms."""
    by_group: dict[Group, list[Answered]] = defaultdict(list)
    for one in found:
        by_group[one.group].append(one)
    line = f"{name:30s} {len(by_group):3d} groups {len(found):4d} cells |"
    for said in ("predicted", "unsaid", "script"):
        off = [np.array([one.off[said] for one in some]) for some in by_group.values()]
        error = 100 * np.mean([np.abs(np.expm1(one)).mean() for one in off])
        logs = np.mean([np.abs(one).mean() for one in off])
        line += f" {said} {error:5.1f} %, {logs:4.2f} in logs |"
    inside = np.mean([np.mean([one.inside for one in some]) for some in by_group.values()])
    width = np.median([one.width for one in found])
    print(f"{line} inside {100 * inside:3.0f} %, high/low {width:4.1f}", flush=True)


def report_kinds(groups: _Groups, found: Sequence[Answered]) -> None:
    """Print how far steps on one kind over those on another are off, each on one accelerator."""
    by_kind: dict[tuple[str, str], list[Answered]] = defaultdict(list)
    for one in found:
        if one.where == ALONE:
            by_kind[groups[one.group].model, one.machine].append(one)
    level = {
        said: {key: np.mean([one.off[said] for one in some]) for key, some in by_kind.items()}
        for said in ("predicted", "script")
    }
    for (model, kind), there in level["predicted"].items():
        for (other, beside), here in level["predicted"].items():
            if model == other and kind < beside:
                script = level["script"][model, kind] - level["script"][model, beside]
                print(
                    f"{model:28s} {kind} over {beside}: off by {there - here:5.2f} as predicted, "
                    f"{script:5.2f} as a script"
                )


def main() -> None:
    """Print a line for every way of observing and every kind of accelerator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--locked", action="store_true", help="judge the fifth that is locked away")
    asked = parser.parse_args()
    prior = fitted_prior()
    groups = named_by_model(script_groups(Path(asked.data), asked.models))
    gaps = gaps_without(groups, prior)
    for way in WAYS:
        found = list(answers(groups, gaps, prior, way, locked=asked.locked))
        report(way, found)
        for place in (ALONE, WITHIN, HOSTS):
            report(f"  {place}", [one for one in found if one.where == place])
        for machine in sorted({one.machine for one in found}):
            report(f"  on {machine}", [one for one in found if one.machine == machine])
        if way == "nothing":
            report_kinds(groups, found)


if __name__ == "__main__":
    main()
