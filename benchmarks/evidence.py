"""Judge what observations do to answers, on public tables of measured steps.

    python benchmarks/evidence.py --data FOLDER [--source sia gavel ...] [--locked]

Every question goes through the estimator, as a scheduler's would. A *group* is a job, whatever its
batch, on one kind of accelerator. Of each group some cells are asked, with

- ``echo``: the cell itself among all others of the group;
- ``once``: the cell itself and nothing else;
- ``near``: all other cells of the group;
- ``one``: a single other cell of the group;
- ``elsewhere``: cells of the job on other kinds of accelerators only.

Beside each error stands that of the answer without any observation. A fifth of the jobs, by the
hash of their names, is left out unless ``--locked`` asks for them alone. The shipped model has
learned from the tables of Lambda, NVIDIA and timm: what it errs without observations is flattered
there. ``--residuals`` tells in place of all this what one cell of a group could say of another: how
far groups are off as a whole, how far cells within them, and how alike two cells are by their
batches; with ``--unseen`` for a model that answers as if it had learned from none of these jobs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perfmodel.errors import PerfModelError
from perfmodel.estimator import Estimator
from perfmodel.estimator.single.loading import load_model
from perfmodel.graph.job import Job
from perfmodel.importers.registry import read_format
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.training.placement_rows.script_rows import is_locked

SOURCES = ("sia", "gavel", "lambda", "deep-learning-examples", "timm")
WAYS = ("echo", "once", "near", "one", "elsewhere")
#: Cells that are asked of a group, and that are observed at most.
_ASKED, _OBSERVED = 6, 60
#: Cells of a group whose residuals are looked at, and bins of their batches, a factor of two each.
_RESIDUALS, _FACTORS = 12, 8
#: Models of timm that are looked at; each takes seconds to capture.
_TIMM_MODELS = 40


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measured step of a job, and the kind of accelerator it ran on."""

    job: Job
    kind: str
    seen: Observation


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question: errors with and without observations, and what was said.

    Parameters
    ----------
    off, before : float
        Logarithm of answered over measured time, with and without observations.
    width : float
        High over low end of the interval.
    """

    group: tuple[str, str]
    off: float
    before: float
    inside: bool
    width: float
    basis: str


def groups_of(source: str, data: Path, *, locked: bool) -> dict[tuple[str, str], list[Cell]]:
    """Return the cells of a table by job and kind of accelerator."""
    table = read_format(source, data)
    found: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for one in table.placements:
        if one.job is not None and not one.placement.shared_with:
            seen = Observation(
                placement=one.placement,
                batch_size=one.batch_size,
                step_time_s=one.step_time_s,
                sync_time_s=one.sync_time_s,
            )
            _add(found, one.job, seen)
    names = sorted({str(one.job.model) for one in table.steps}, key=_shuffled)[:_TIMM_MODELS]
    for step in table.steps if source not in ("sia", "gavel") else ():
        if source != "timm" or step.job.model in names:
            alone = Placement(nodes=(Node(accelerator=step.accelerator, count=1),))
            seen = Observation(
                placement=alone, batch_size=step.job.batch_size, step_time_s=step.step_time_s,
                accumulation_steps=step.job.accumulation_steps,
            )  # fmt: skip
            _add(found, step.job, seen)
    return {
        key: cells for key, cells in found.items() if is_locked(key[0].partition(" ")[0]) == locked
    }


def _shuffled(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _add(found: dict[tuple[str, str], list[Cell]], job: Job, seen: Observation) -> None:
    kind = seen.placement.nodes[0].accelerator
    key = (f"{job.model} {job.family[:8]}", kind)
    found[key].append(Cell(job=job, kind=kind, seen=seen))


def answers(
    estimator: Estimator, groups: dict[tuple[str, str], list[Cell]], way: str
) -> Iterator[Answered]:
    """Ask about some cells of every group in one way."""
    for (job, kind), cells in groups.items():
        rng = np.random.default_rng(list(f"{job} {kind}".encode()))
        elsewhere = [c for (j, k), some in groups.items() if j == job and k != kind for c in some]
        for at in rng.permutation(len(cells))[:_ASKED]:
            others = [cell for i, cell in enumerate(cells) if i != at]
            observed = _observed(way, cells[at], others, elsewhere, rng)
            if observed:
                try:
                    yield _ask(estimator, (job, kind), cells[at], observed)
                except PerfModelError as error:
                    print(f"{job} on {kind}: {error}")


def _observed(
    way: str,
    asked: Cell,
    others: Sequence[Cell],
    elsewhere: Sequence[Cell],
    rng: np.random.Generator,
) -> list[Cell]:
    chosen = [others[i] for i in rng.permutation(len(others))[:_OBSERVED]]
    if way == "echo":
        return [asked, *chosen]
    if way == "once":
        return [asked]
    if way == "elsewhere":
        return [elsewhere[i] for i in rng.permutation(len(elsewhere))[:_OBSERVED]]
    return chosen[:1] if way == "one" else chosen


def _ask(
    estimator: Estimator, group: tuple[str, str], asked: Cell, observed: Sequence[Cell]
) -> Answered:
    seen = asked.seen
    job = replace(asked.job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps)
    before = estimator.estimate(job, seen.placement)
    after = estimator.estimate(job, seen.placement, [one.seen for one in observed])
    rate = after.throughput.samples_per_second * after.step_time_s / seen.step_time_s
    return Answered(
        group=group,
        off=float(np.log(after.step_time_s / seen.step_time_s)),
        before=float(np.log(before.step_time_s / seen.step_time_s)),
        inside=after.throughput.low <= rate <= after.throughput.high,
        width=after.throughput.high / after.throughput.low,
        basis=after.basis.value,
    )


def report(source: str, way: str, found: Sequence[Answered]) -> None:
    """Print one line: errors, coverage and harm."""
    if not found:
        return
    by_group: dict[tuple[str, str], list[Answered]] = defaultdict(list)
    for one in found:
        by_group[one.group].append(one)
    means = np.array(
        [
            [np.mean([abs(np.expm1(value)) for value in (getattr(o, name) for o in some)])
             for name in ("off", "before")]
            for some in by_group.values()
        ]
    )  # fmt: skip
    off = np.abs(np.expm1([one.off for one in found]))
    before = np.abs(np.expm1([one.before for one in found]))
    bases = sorted({one.basis for one in found})
    print(
        f"{source:22s} {way:9s} {len(by_group):4d} groups {len(found):5d} cells | error "
        f"{100 * off.mean():6.1f} % (median {100 * np.median(off):5.1f}, worst "
        f"{100 * off.max():6.1f}), before {100 * before.mean():6.1f} % | lower in "
        f"{100 * np.mean(means[:, 0] <= means[:, 1]):3.0f} %, over 1.1 times in "
        f"{100 * np.mean(means[:, 0] > 1.1 * means[:, 1]):3.0f} % | inside "
        f"{100 * np.mean([one.inside for one in found]):3.0f} %, high/low "
        f"{np.median([one.width for one in found]):5.2f} | {', '.join(bases)}",
        flush=True,
    )


def residuals(
    estimator: Estimator, groups: dict[tuple[str, str], list[Cell]]
) -> list[list[tuple[float, float]]]:
    """Return batch and ln(measured / predicted) of some cells of each group of several."""
    found = []
    for group, cells in groups.items():
        rng = np.random.default_rng(list(str(group).encode()))
        chosen = [cells[i] for i in rng.permutation(len(cells))[:_RESIDUALS]]
        found.append([(cell.seen.batch_size, _residual(estimator, cell)) for cell in chosen])
    return [some for some in found if len(some) > 1]


def _residual(estimator: Estimator, cell: Cell) -> float:
    seen = cell.seen
    job = replace(cell.job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps)
    return float(np.log(seen.step_time_s / estimator.estimate(job, seen.placement).step_time_s))


def report_residuals(source: str, groups: Sequence[Sequence[tuple[float, float]]]) -> None:
    """Print what one cell of a group could say of another."""
    logs = [np.array([residual for _, residual in some]) for some in groups]
    free = sum(len(some) - 1 for some in logs)
    within = sum(float(np.sum((some - some.mean()) ** 2)) for some in logs) / free
    level = np.mean([some.mean() ** 2 - within / len(some) for some in logs])
    products, squares = np.zeros(_FACTORS), np.zeros(_FACTORS)
    for some in groups:
        for i, (batch, residual) in enumerate(some):
            for other_batch, other in some[:i]:
                factor = min(round(abs(np.log2(batch / other_batch))), _FACTORS - 1)
                products[factor] += residual * other
                squares[factor] += (residual**2 + other**2) / 2
    alike = " ".join(f"{one:5.2f}" for one in products / np.maximum(squares, 1e-12))
    print(
        f"{source:22s} {len(groups):4d} groups {free + len(groups):5d} cells | level "
        f"{np.sqrt(max(level, 0.0)):.3f}, within {np.sqrt(within):.3f} | alike by batches that "
        f"differ 1, 2, 4, ... times: {alike}",
        flush=True,
    )


def main() -> None:
    """Print a line for every table and way of observing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--source", nargs="+", choices=SOURCES, default=SOURCES)
    parser.add_argument("--way", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--locked", action="store_true", help="judge the fifth that is locked away")
    parser.add_argument("--residuals", action="store_true", help="what a cell could say of another")
    parser.add_argument("--unseen", action="store_true", help="as if no job had been learned from")
    asked = parser.parse_args()
    estimator = (_unseen if asked.unseen else Estimator.from_folder)(asked.models)
    for source in asked.source:
        groups = groups_of(source, Path(asked.data), locked=asked.locked)
        if asked.residuals:
            report_residuals(source, residuals(estimator, groups))
            continue
        for way in asked.way:
            report(source, way, list(answers(estimator, groups, way)))


def _unseen(models: Path) -> Estimator:
    known = load_model(models)
    assert isinstance(known.model, ServingModel)
    strange = replace(known, model=known.model.as_if_unseen())
    return Estimator.from_folder(models).with_model(strange)


if __name__ == "__main__":
    main()
