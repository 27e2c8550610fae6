"""What the report says, as values: scores of each line, of its devices and of its families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from accuracy_report.goals import GOALS, Goal
from held_out.held_out_answers import AnswerTable
from held_out.metrics import (
    GroupCoverage,
    HeldOutScores,
    coverage_by,
    score_answers,
    score_baseline,
)

from perfmodel.features.arrays import StrArray

#: Rows from which on a family is listed.
_LEAST_OF_FAMILY = 10


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the headline table, with what lies behind it.

    Parameters
    ----------
    baselines : mapping of str to HeldOutScores or None
        None where a baseline answers fewer than half of the rows.
    devices, families : mapping of str to HeldOutScores
        Of the learner; families of fewer than ten rows are left out.
    groups : tuple of GroupCoverage
        Coverage per device and setting, of groups that are large enough.
    """

    goal: Goal
    scores: HeldOutScores
    baselines: Mapping[str, HeldOutScores | None]
    devices: Mapping[str, HeldOutScores]
    families: Mapping[str, HeldOutScores]
    groups: tuple[GroupCoverage, ...]

    @property
    def reached(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.goal.target is None else self.scores.mape <= self.goal.target

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "title": self.goal.title,
            "split": self.goal.split,
            "probes": self.goal.probes,
            "target": self.goal.target,
            "reached": self.reached,
            "scores": self.scores.to_dict(),
            "baselines": {n: s.to_dict() if s else None for n, s in self.baselines.items()},
            "devices": {name: scores.to_dict() for name, scores in self.devices.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbePoint:
    """Error on a device after some probes.

    Parameters
    ----------
    baselines : mapping of str to float
        MAPE of each baseline that was given the same probes.
    """

    device: str
    choice: str
    probes: int
    rows: int
    mape: float
    coverage: float
    baselines: Mapping[str, float]


def summarise(table: AnswerTable, goals: Sequence[Goal] = GOALS) -> list[Line]:
    """Return the line of every goal that has rows."""
    lines = []
    for goal in goals:
        rows = goal.rows(table)
        if len(rows):
            lines.append(_line(goal, rows))
    return lines


def _line(goal: Goal, rows: AnswerTable) -> Line:
    return Line(
        goal=goal,
        scores=score_answers(rows),
        baselines={name: score_baseline(rows, name) for name in rows.baselines},
        devices=_scores_by(rows, rows.device, 1),
        families=_scores_by(rows, rows.family, _LEAST_OF_FAMILY),
        groups=_groups(rows),
    )


def _groups(rows: AnswerTable) -> tuple[GroupCoverage, ...]:
    """Coverage by device, and by setting where a device has more than one."""
    devices = coverage_by(rows, rows.device)
    whole = {(group.group, group.rows) for group in devices}
    settings = [
        group
        for group in coverage_by(rows, settings_of(rows))
        if (group.group.partition(",")[0], group.rows) not in whole
    ]
    return (*devices, *settings)


def settings_of(rows: AnswerTable) -> StrArray:
    """Return device, precision, layout and compiler of each row as one word."""
    words = rows.device
    for column in (rows.precision, rows.memory_format, rows.compiler):
        words = np.char.add(np.char.add(words, ", "), column)
    return words


def probe_curve(table: AnswerTable, goal: Goal) -> list[ProbePoint]:
    """Return the error over the number of probes, per device and way of choosing them.

    Zero probes are judged on the rows that are asked with probes, so that points compare.

    Parameters
    ----------
    goal : Goal
        Its rows, whatever its number of probes.
    """
    rows = table.take((table.split == goal.split) & goal.selection.of(table))
    probed = rows.take(rows.probes > 0)
    points = []
    for device in sorted(set(probed.device.tolist())):
        with_probes = probed.take(probed.device == device)
        models = set(with_probes.model.tolist())
        at_zero = (rows.device == device) & (rows.probes == 0)
        at_zero &= np.isin(rows.model, sorted(models))
        points.append(_point(rows.take(at_zero), device, ""))
        for choice in sorted(set(with_probes.choice.tolist())):
            chosen = with_probes.take(with_probes.choice == choice)
            for count in np.unique(chosen.probes).tolist():
                points.append(_point(chosen.take(chosen.probes == count), device, choice))
    return points


def _point(rows: AnswerTable, device: str, choice: str) -> ProbePoint:
    scores = score_answers(rows)
    baselines = {name: score_baseline(rows, name) for name in rows.baselines}
    return ProbePoint(
        device=device,
        choice=choice,
        probes=int(rows.probes[0]),
        rows=len(rows),
        mape=scores.mape,
        coverage=float(scores.coverage or 0.0),
        baselines={name: found.mape for name, found in baselines.items() if found},
    )


def _scores_by(rows: AnswerTable, words: StrArray, least: int) -> dict[str, HeldOutScores]:
    names, counts = np.unique(words, return_counts=True)
    return {
        str(name): score_answers(rows.take(words == name))
        for name, count in zip(names, counts, strict=True)
        if count >= least
    }
