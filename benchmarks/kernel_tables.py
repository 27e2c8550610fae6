"""What further tables of kernels are worth to the predictor of kernels, each device left out.

It learns the tables that it is trained on, once alone and once with the added ones beside them; a
device is left out of all. Both answers are set beside each other, per group of operators, of rows
of the first tables and of the added ones. Devices of the lockbox stand apart, for they take part in
no choice. Every seed grows other trees on other rows: how far the mean moves with them is what a
difference has to exceed.

Run: ``python benchmarks/kernel_tables.py --added mlx-benchmark llmcompass`` (on one core)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from accuracy_report.kernel_accuracy import questions
from held_out.frozen_folds import is_locked

from perfmodel.features.arrays import BoolArray
from perfmodel.importers.published import PublishedKernel
from perfmodel.predictors.boosting import BoosterSettings
from perfmodel.predictors.kernels.kernel_base import GROUPS, kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KERNEL_SETTINGS, KernelPredictor
from perfmodel.training.samples.measured_kernels import MeasuredCalls, measured_calls, same_shapes
from perfmodel.training.samples.public_data import OPERATOR_FORMATS, read_formats

_LIMIT = 600
_ROUNDS = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One device left out of one group of operators.

    Parameters
    ----------
    question : str
        Group of operators, point-wise ones in fp32 for themselves.
    table : str
        Whose rows were asked about: ``"learned"`` or ``"added"``.
    without, beside : float
        Mean relative error without the added tables and with them.
    """

    seed: int
    question: str
    table: str
    device: str
    rows: int
    without: float
    beside: float

    def __str__(self) -> str:
        errors = f"{100 * self.without:.1f} -> {100 * self.beside:.1f} %"
        return f"{self.seed} {self.question} {self.table} {self.device} ({self.rows}): {errors}"


def main() -> None:
    """Judge and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--learned", nargs="*", default=OPERATOR_FORMATS)
    parser.add_argument("--added", nargs="+", required=True)
    parser.add_argument("--groups", nargs="*", default=GROUPS, choices=GROUPS)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of tables with --data or PERFMODEL_DATA")
    learned, added = (_kernels(given.data, names) for names in (given.learned, given.added))
    judged = []
    for seed in range(given.seeds):
        for one in judge(learned, added, given.groups, seed):
            judged.append(one)
            print(one, file=sys.stderr, flush=True)
    print(page(judged))


def _kernels(data: Path, formats: Sequence[str]) -> list[PublishedKernel]:
    found = read_formats(Path(data), formats)
    return [kernel for imported in found.values() for kernel in imported.kernels]


def judge(
    learned: Sequence[PublishedKernel],
    added: Sequence[PublishedKernel],
    groups: Sequence[str],
    seed: int,
) -> Iterator[Judged]:
    """Yield how each device is answered that was left out, in groups that both tables have."""
    settings = replace(KERNEL_SETTINGS, rounds=_ROUNDS)
    everything = measured_calls([*learned, *added])
    group = kernel_group(everything.calls)
    is_added = np.arange(len(everything)) >= len(learned)
    for name in groups:
        old, new = (np.flatnonzero((group == name) & (is_added == kind)) for kind in (False, True))
        if len(old) and len(new):
            old = old[same_shapes(everything.take(old).calls, _LIMIT, seed)]
            rows = np.concatenate([old, new])
            part = everything.take(rows)
            yield from _each_device(part, is_added[rows], name, settings, seed)


def _each_device(
    part: MeasuredCalls, is_added: BoolArray, group: str, settings: BoosterSettings, seed: int
) -> Iterator[Judged]:
    question = questions(part, group)
    for device in np.unique(part.calls.device).tolist():
        held = part.calls.device == device
        answers = []
        for rows in (~held & ~is_added, ~held):
            train = part.take(rows)
            fitted = KernelPredictor(settings, seed).fit(train.calls, train.time_s)
            answers.append(fitted.predict(part.calls))
        for table, of_table in (("learned", ~is_added), ("added", is_added)):
            for name in np.unique(question).tolist():
                rows = held & of_table & (question == name)
                if rows.any():
                    times = part.time_s[rows]
                    off = [float(np.abs(found[rows] / times - 1).mean()) for found in answers]
                    yield Judged(
                        seed=seed,
                        question=name,
                        table=table,
                        device=part.calls.devices[device].name,
                        rows=int(rows.sum()),
                        without=off[0],
                        beside=off[1],
                    )


def page(judged: Sequence[Judged]) -> str:
    """Return the mean over devices and seeds of each group, devices of the lockbox apart."""
    lines = [
        "| operators | rows of | devices | without | with | spread of seeds |",
        "|---|---|---|---|---|---|",
    ]
    kinds: dict[tuple[str, str, str], list[Judged]] = {}
    for one in judged:
        lock = "locked" if is_locked(one.device) else "open"
        kinds.setdefault((one.question, one.table, lock), []).append(one)
    for (question, table, lock), found in kinds.items():
        seeds = sorted({one.seed for one in found})
        means = np.array(
            [
                [np.mean([getattr(one, name) for one in found if one.seed == s]) for s in seeds]
                for name in ("without", "beside")
            ]
        )
        without, beside = 100 * means.mean(axis=1)
        spread = 100 * np.ptp(means, axis=1).max()
        devices = len({one.device for one in found})
        lines.append(
            f"| {question} | {table}, {lock} | {devices} | {without:.1f} % | {beside:.1f} % | "
            f"{spread:.1f} % |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
