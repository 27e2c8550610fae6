"""What whole answers are worth on published tables, most of which no version learned of.

Every step is asked as a user would ask it, with its job and its accelerators, of the model as it is
shipped. Rows are drawn by a hash of their job, so that the same ones come back. The page names the
tables that the model has learned from, which flatters it there. Of splits of language models the
constants may have been fitted on the same rows: ``placement_accuracy/plans_core.py`` says what they
are worth without.

Run: ``python benchmarks/tables_answered.py --write docs/tables-answered.md`` (20 min)
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.errors import PerfModelError
from perfmodel.estimator import Estimator
from perfmodel.graph.job import Job
from perfmodel.importers.registry import read_format
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.store.artifacts import latest
from perfmodel.training.placement_fits.fit_plans import FORMATS
from perfmodel.types import Mode, Precision

#: Tables of single accelerators and of few, and of language models on clusters.
TABLES = (
    "detectron2", "aws-neuron",
    "lambda-tensorflow", "fastertransformer", "timm-releases",
    "megatron-bridge", "dgxc-benchmarking", "nemo", "torchtitan",
)  # fmt: skip
#: Sources of a model's snapshot that hold steps of a table too, and which.
_SAME_STEPS = {"lambda-tensorflow": ("cnn-steps", "its steps on one GPU")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One published step and its answer.

    Parameters
    ----------
    task : str
        What was done: mode and arithmetic, or the model of a cluster.
    error : float
        Answer over measurement, in logarithms.
    is_inside : bool
        The measurement lies in the interval.
    """

    table: str
    device: str
    task: str
    error: float
    is_inside: bool


def main() -> None:
    """Ask and print, or write a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--most", type=int, default=60, help="rows of a table, device and kind")
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of tables with --data or PERFMODEL_DATA")
    estimator = Estimator.from_folder(given.models)
    found = [
        one
        for table in given.tables
        for one in _answered(estimator, table, Path(given.data), given.most)
    ]
    page = _page(found, given.most, _flattered(given.models, given.tables))
    print(page)
    if given.write:
        given.write.write_text(page, encoding="utf-8")


def _flattered(models: Path, tables: Sequence[str]) -> str:
    """Say of which tables the model, or the constants of plans, that answer have seen steps."""
    version = latest(models, "default")
    learned = version.manifest["snapshot"]
    seen = {table: "all of it" for table in tables if table in learned}
    for table, (source, what) in _SAME_STEPS.items():
        if table in tables and source in learned:
            seen.setdefault(table, f"{what}, as {source}")
    told = "; ".join(f"{table} ({what})" for table, what in seen.items())
    fitted = [one for table in FORMATS.values() for one in table if one in tables]
    constants = f" Constants of plans are fitted on {', '.join(fitted)}." if fitted else ""
    return f"{version.name} has learned from {told or 'none of these tables'}.{constants}"


def _answered(estimator: Estimator, table: str, data: Path, most: int) -> Iterator[Asked]:
    refused = 0
    for job, placement, measured_s, task in _drawn(_questions(table, data), most):
        try:
            answer = estimator.estimate(job, placement)
        except PerfModelError as error:
            refused += 1
            print(f"{table}: no answer: {str(error)[:160]}")
            continue
        ratio = answer.step_time_s / measured_s
        print(table, placement.nodes[0].accelerator, job.label, task, f"{ratio:.2f}", flush=True)
        rate = answer.throughput
        factor = answer.step_time_s * rate.samples_per_second
        yield Asked(
            table=table,
            device=placement.nodes[0].accelerator,
            task=task,
            error=float(np.log(answer.step_time_s / measured_s)),
            is_inside=factor / rate.high <= measured_s <= factor / rate.low,
        )
    if refused:
        print(f"{table}: {refused} questions had no answer")


Question = tuple[Job, Placement, float, str]


def _questions(table: str, data: Path) -> list[Question]:
    read = read_format(table, data)
    steps = [
        (one.job, Placement(nodes=(Node(accelerator=one.accelerator),)), one.step_time_s)
        for one in read.steps
    ]
    several = [
        (one.job, one.placement, one.step_time_s) for one in read.placements if one.job is not None
    ]
    return [(*one, _task(one[0], one[1])) for one in steps + several]


def _task(job: Job, placement: Placement) -> str:
    count = placement.accelerator_count
    kind = "training" if job.mode is Mode.TRAINING else "inference"
    if job.hf_config is not None and job.mode is Mode.TRAINING or job.model == "zoo/megatron-gpt":
        width = "fp8" if job.precision is Precision.FP8 else "16 bits"
        return f"language models, {width}"
    framework = job.software.get("framework", "pytorch")
    return f"{kind}, {framework}, {'1 GPU' if count == 1 else 'several'}"


def _drawn(questions: Sequence[Question], most: int) -> list[Question]:
    """Return as many of each device and task as are wanted, by a hash of the job."""
    ordered = sorted(
        questions,
        key=lambda one: hashlib.sha256(f"{one[0].reference}{one[1]}".encode()).digest(),
    )
    taken: dict[tuple[str, str], int] = {}
    kept = []
    for one in ordered:
        key = one[1].nodes[0].accelerator, one[3]
        taken[key] = taken.get(key, 0) + 1
        if taken[key] <= most:
            kept.append(one)
    return kept


def _page(found: Sequence[Asked], most: int, flattered: str) -> str:
    lines = [
        "# Answers on published tables",
        "",
        f"Written by `python benchmarks/tables_answered.py --most {most} --tables",
        f"{' '.join(dict.fromkeys(one.table for one in found))}`:",
        "mean and median error of the step, mean of answer over measurement, and how many",
        "measurements lie inside the 90 % interval. `--most` rows of each accelerator and task.",
        flattered,
        "",
    ]
    groups: tuple[tuple[str, Callable[[Asked], tuple[str, ...]]], ...] = (
        ("table | accelerator", lambda one: (one.table, one.device)),
        ("table | task", lambda one: (one.table, one.task)),
    )
    for title, key in groups:
        lines += [f"| {title} | steps | error | median | answer / measured | inside |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for name in dict.fromkeys(map(key, found)):
            errors = np.array([one.error for one in found if key(one) == name])
            inside = np.mean([one.is_inside for one in found if key(one) == name])
            off = 100 * np.abs(np.exp(errors) - 1)
            lines.append(
                f"| {' | '.join(name)} | {len(errors)} | {off.mean():.1f} % | "
                f"{np.median(off):.1f} % | {np.exp(errors.mean()):.2f} | {100 * inside:.0f} % |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
