"""Cross-validate and write docs/accuracy.md: how good answers are for what was never seen.

Public measurements are read from ``--data`` (or PERFMODEL_DATA); without them only the profiles
of this project are judged. Captured sketches are kept (PERFMODEL_CACHE): the first run captures
every model once, which takes about 20 minutes on two cores and does not count for the times below.
The fast form took 10 minutes 27 seconds of the clock on two cores beside other work, and 14 minutes
41 seconds of processors (aim: 10). The full form took 83 (aim: 90) when fewer tables were judged,
and was not timed since. What a run took of the clock and of processors stands in its page.
"""

from __future__ import annotations

import os

# Before numpy and torch are loaded: two folds run side by side, each on one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from accuracy_report.kernel_accuracy import run_kernels
from accuracy_report.report import write_lockbox, write_report
from accuracy_report.summary import summarise
from held_out.cross_validation import (
    CrossValidation,
    cross_validate,
    load_answers,
    note_duration,
)
from held_out.fold_schedule import FAST, FULL
from held_out.frozen_folds import LOCKBOX, SPLITS
from placement_accuracy.run import PARTS, divided, run_placements

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.errors import PerfModelError
from perfmodel.training.samples.public_data import load_data

LEARNER = "perfmodel.predictors.joint.joint:JointPredictor"
#: With how much less it learns in the fast form, beside fewer folds and samples.
_FEWER_PASSES = {LEARNER: {"folds": 3, "epochs": 4}}


def main() -> None:
    try:
        _run(_arguments())
    except PerfModelError as error:
        sys.exit(f"Error: {error.message}")


def _run(arguments: argparse.Namespace) -> None:
    started = time.perf_counter()
    if not arguments.report_only:
        if not (arguments.only_placements or arguments.only_kernels):
            _run_steps(arguments)
        if arguments.data is not None and not arguments.only_lockbox:
            _run_tables(arguments)
        if not (arguments.only_placements or arguments.only_kernels or arguments.resume):
            note_duration(arguments.folder, time.perf_counter() - started, _processor_s())
    if not (arguments.folder / "run.json").exists():
        _tell(f"No answers about whole steps lie in {arguments.folder}: no report is written.")
        return
    if arguments.only_lockbox:
        form = " --fast" if arguments.fast else ""
        command = f"python benchmarks/accuracy.py --only-lockbox{form}"
        write_lockbox(arguments.folder, arguments.out, command=command)
        return
    write_report(
        arguments.folder,
        arguments.out,
        command=f"make bench-accuracy{' FORM=--fast' if arguments.fast else ''}",
        json_path=arguments.json,
    )
    for line in summarise(load_answers(arguments.folder)):
        target = "" if line.goal.target is None else f", to reach {100 * line.goal.target:.0f} %"
        print(f"{100 * line.scores.mape:6.1f} %  {line.goal.title} ({line.scores.rows}{target})")
    print(f"{arguments.out} written; {(time.perf_counter() - started) / 60:.1f} minutes")


def _processor_s() -> float:
    """Return what this process and those that it began have computed, seconds."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _run_steps(arguments: argparse.Namespace) -> None:
    data = load_data(
        arguments.data,
        profiles=arguments.profiles,
        engine=LocalEngine(workers=arguments.workers),
        progress=_tell,
    )
    _tell(f"{len(data.samples)} samples; not in the folder: {', '.join(data.absent) or 'nothing'}")
    factory = _learner(arguments.learner)
    fewer = _FEWER_PASSES.get(arguments.learner, {}) if arguments.fast else {}
    changed = "".join(f", {setting} {value}" for setting, value in fewer.items())
    validation = CrossValidation(
        samples=data.samples,
        make_learner=lambda seed: factory(seed=seed, **fewer),
        folder=arguments.folder,
        name=arguments.learner.partition(":")[2] + changed,
        seed=arguments.seed,
        effort=FAST if arguments.fast else FULL,
        splits=_splits(arguments),
        workers=arguments.workers,
        operators=data.operators,
        facts={"dropped": data.dropped, "rejected": data.rejected},
    )
    cross_validate(validation, resume=arguments.resume, progress=_tell)


def _splits(arguments: argparse.Namespace) -> Sequence[str]:
    if arguments.only_lockbox:
        return ("unseen-family", "unseen-device", LOCKBOX)
    return arguments.split or SPLITS


def _run_tables(arguments: argparse.Namespace) -> None:
    """Judge kernels and all parts of the placement floor, side by side."""
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        running = [] if arguments.only_placements else [pool.submit(_judge_kernels, arguments)]
        parts = [] if arguments.only_kernels else divided(arguments.part or PARTS)
        running += [pool.submit(_judge_parts, arguments, some) for some in parts]
        for one in running:
            one.result()


def _judge_kernels(arguments: argparse.Namespace) -> None:
    run_kernels(
        arguments.data,
        arguments.folder,
        seed=arguments.seed,
        fast=arguments.fast,
        progress=_tell,
    )


def _judge_parts(arguments: argparse.Namespace, parts: Sequence[str]) -> None:
    run_placements(
        arguments.data, arguments.folder, fast=arguments.fast, parts=parts, progress=_tell
    )


def _learner(location: str) -> Any:
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--profiles", type=Path, default=Path("profiles"))
    parser.add_argument("--fast", action="store_true", help="fewer folds on fewer samples")
    parser.add_argument("--learner", default=LEARNER, metavar="MODULE:CLASS")
    parser.add_argument("--split", action="append", choices=SPLITS, help="only this; repeatable")
    parser.add_argument("--part", action="append", choices=PARTS, help="of placements; repeatable")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--only-placements", action="store_true", help="leave the steps alone")
    only.add_argument(
        "--only-kernels", action="store_true", help="leave steps and placements alone"
    )
    only.add_argument(
        "--only-lockbox",
        action="store_true",
        help="ask the lockbox and the lines beside it; write that section alone",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/accuracy"))
    parser.add_argument("--resume", action="store_true", help="go on with a run that stopped")
    parser.add_argument("--report-only", action="store_true", help="write the pages again")
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy.md"))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
