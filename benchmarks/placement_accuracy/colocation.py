"""Judge the answers to jobs that share an accelerator on Gavel's pairs.

A pair is left out in both directions and on both kinds of accelerator at once, and a kind of
accelerator with all its pairs, or with all but a few; times of jobs alone are known, as they are to
whoever asks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from placement_accuracy.line import Line

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.training.placement_fits.fit_colocation import answer, pair_folds
from perfmodel.training.placement_rows.pair_rows import Pairs, read_pairs

_FOLDS = 10
#: Pairs measured first on a new kind of accelerator.
_SEEN = 20
#: Rounds of row and column means until the factors of a table with holes stand still.
_ROUNDS = 30


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return the lines of unseen pairs and of unseen kinds of accelerator.

    Parameters
    ----------
    fast : bool
        Three folds instead of ten.
    """
    pairs, _ = read_pairs(data)
    unseen = _line(
        pairs,
        pair_folds(pairs, 3 if fast else _FOLDS),
        name="gavel-pairs",
        title="Two jobs on one accelerator, pair never seen on any kind",
        target=0.10,
        note="Both directions of a pair and both kinds of accelerator are left out together.",
    )
    kinds = np.unique(pairs.kinds).tolist()
    return [unseen, *(_kind_line(pairs, kind, seen) for seen in (0, _SEEN) for kind in kinds)]


def _kind_line(pairs: Pairs, kind: str, seen: int) -> Line:
    """Judge a kind of accelerator of which all pairs but some, drawn by chance, were left out."""
    here, names = pairs.kinds == kind, np.array(pairs.pair_names)
    drawn = np.random.default_rng(0).choice(np.unique(names[here]), seen, replace=False)
    asked = here & ~np.isin(names, drawn)
    some = f"{seen} pairs" if seen else "no pair"
    return _line(
        pairs.take(asked),
        None,
        name=f"gavel-kind-{kind.lower()}" + (f"-{seen}-pairs" if seen else ""),
        title=f"Two jobs on one {kind}, {some} seen on that kind",
        target=None if seen else 0.15,
        note="Learned on the pairs of the other kind; step times alone are known.",
        learned_on=pairs.take(~asked),
    )


def _line(
    pairs: Pairs,
    folds: IntArray | None,
    *,
    name: str,
    title: str,
    target: float | None,
    note: str,
    learned_on: Pairs | None = None,
) -> Line:
    alone = pairs.subject_loads.step_time_s
    answers = np.zeros(len(pairs))
    baselines = {
        "no interference": alone,
        "half each": 2 * alone,
        "mean slowdown": np.zeros(len(pairs)),
        "factors of both jobs": np.zeros(len(pairs)),
    }
    for fold in np.unique(folds) if folds is not None else [0]:
        asked = folds == fold if folds is not None else np.ones(len(pairs), dtype=np.bool_)
        known = pairs.take(~asked) if learned_on is None else learned_on
        questions = pairs.take(asked)
        answers[asked] = alone[asked] * answer(known, questions)
        baselines["mean slowdown"][asked] = alone[asked] * np.exp(known.log_slowdown.mean())
        baselines["factors of both jobs"][asked] = alone[asked] * _factors(known, questions)
    return Line(
        name=name,
        title=title,
        measured=pairs.step_time_s,
        predicted=answers,
        groups=pairs.kinds.tolist(),
        jobs=[f"{job} on {kind}" for job, kind in zip(pairs.subjects, pairs.kinds, strict=True)],
        baselines=baselines,
        target=target,
        note=note,
    )


def _factors(known: Pairs, questions: Pairs) -> FloatArray:
    """Slowdown as a factor of the subject times one of the partner, per kind where it is known."""
    kinds = sorted(set(known.kinds.tolist()))
    by_kind = {kind: _row_and_column(known.take(known.kinds == kind)) for kind in kinds}
    found = np.zeros(len(questions))
    for i, (kind, subject, partner) in enumerate(
        zip(questions.kinds, questions.subjects, questions.partners, strict=True)
    ):
        mean, subjects, partners = by_kind[kind if kind in kinds else kinds[0]]
        found[i] = np.exp(mean + subjects.get(subject, 0.0) + partners.get(partner, 0.0))
    return found


def _row_and_column(known: Pairs) -> tuple[float, dict[str, float], dict[str, float]]:
    y, mean = known.log_slowdown, float(known.log_slowdown.mean())
    rows, row = np.unique(known.subjects, return_inverse=True)
    columns, column = np.unique(known.partners, return_inverse=True)
    a, b = np.zeros(len(rows)), np.zeros(len(columns))
    for _ in range(_ROUNDS):
        a = np.bincount(row, weights=y - mean - b[column]) / np.bincount(row)
        b = np.bincount(column, weights=y - mean - a[row]) / np.bincount(column)
    return (
        mean,
        dict(zip(rows.tolist(), a.tolist(), strict=True)),
        dict(zip(columns.tolist(), b.tolist(), strict=True)),
    )
