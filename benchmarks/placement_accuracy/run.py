"""Judge every part of the placement floor and keep its answers beside those of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
from accuracy_report.markdown import number, percent
from accuracy_report.methods import MethodTable
from held_out.metrics import ratio_error
from placement_accuracy.line import Line
from scipy.stats import spearmanr

from perfmodel.predictors.folds import Progress

#: Parts by the file of this folder that judges them: those that take longest first.
PARTS = (
    "sia", "job_types", "plans_core", "plans", "plans_published", "data_parallel", "memory",
    "collectives", "colocation",
)  # fmt: skip
#: Parts that ask for the same steps of the same jobs.
_ALIKE = ("sia", "job_types")


def divided(parts: Sequence[str]) -> list[list[str]]:
    """Return parts in the order to begin them in, those that share predictions together."""
    alike = [part for part in parts if part in _ALIKE]
    apart = [[part] for part in parts if part not in _ALIKE]
    return [alike, *apart] if alike else apart


def run_placements(
    data: Path,
    folder: Path,
    *,
    fast: bool = False,
    parts: Sequence[str] = PARTS,
    progress: Progress | None = None,
) -> list[MethodTable]:
    """Judge the placement floor on published tables.

    Parameters
    ----------
    folder : Path
        Where the answers go.
    parts : sequence of str
        Of :data:`PARTS`.
    """
    found = []
    for part in parts:
        judge = import_module(f"placement_accuracy.{part}")
        for line in judge.evaluate(data, fast=fast):
            one = line_table(part, line)
            one.save(folder)
            found.append(one)
            if progress is not None:
                progress(f"{one.title}: {percent(float(line.errors().mean()))}")
    return found


def line_table(part: str, line: Line) -> MethodTable:
    """Return a line as a table of methods, with its ratio error and rank correlation.

    Parameters
    ----------
    part : str
        Comes first in its name.
    """
    facts = {"What was asked": line.note} if line.note else {}
    for name, answers in [("ours", line.predicted), *line.baselines.items()]:
        ratios = _ratios(line, np.asarray(answers, dtype=np.float64))
        if ratios:
            facts[f"Within a job, {name}"] = ratios
    return MethodTable(
        name=f"placement-{part}-{line.name}",
        title=line.title,
        target=line.target,
        measured_s=np.asarray(line.measured, dtype=np.float64),
        predicted_s={"ours": line.predicted, **line.baselines},
        groups=np.array(list(line.groups), dtype=np.str_),
        low_s=line.low,
        high_s=line.high,
        facts=facts,
    )


def _ratios(line: Line, answers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Say how well placements of one job are compared; empty where no job has two."""
    jobs = np.array(list(line.jobs), dtype=np.str_)
    known = np.isfinite(answers)
    if not known.any():
        return ""
    off = np.log(answers[known] / np.asarray(line.measured)[known])
    ratio = ratio_error(jobs[known], off)
    if ratio is None:
        return ""
    ranks = [
        float(spearmanr(answers[rows], np.asarray(line.measured)[rows]).statistic)
        for job in np.unique(jobs[known])
        if np.ptp(answers[rows := np.flatnonzero(known & (jobs == job))]) > 0
        and np.ptp(np.asarray(line.measured)[rows]) > 0
    ]
    rank = float(np.mean(ranks)) if ranks else None
    return f"error of ratios {percent(ratio)}, rank correlation {number(rank)}"
