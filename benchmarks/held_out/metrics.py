"""Figures of merit of held-out answers.

With ``T`` the measured and ``T^`` the predicted time of a step:

- error ``e = |T^ / T - 1|``: its mean (MAPE), median and 90 % quantile;
- bias: the geometric mean of ``T^ / T``, minus 1;
- ratio error within a job: for every two rows i, j of one job (devices, batch sizes, settings)
  ``exp |(ln T^_i - ln T^_j) - (ln T_i - ln T_j)| - 1``, averaged over the pairs of a job and
  then over jobs. The batch sizes cancel: it is the error of a ratio of throughputs;
- rank: Spearman's correlation of predicted and measured samples per second;
- coverage: the share of measured times inside the interval;
- surprises: rows with ``|T^ - T| > 3 h`` where ``h`` is half the width of the interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from held_out.held_out_answers import AnswerTable

from perfmodel.features.arrays import BoolArray, FloatArray, IntArray, StrArray
from perfmodel.training.validation.workload_scores import spearman

#: Rows from which on the coverage of a group means something.
LEAST_GROUP = 200
#: A row is a surprise when its error is beyond so many half-widths.
SURPRISE = 3.0
#: Rows of a job of which all pairs are looked at; of more, a spread-out part.
_MOST_OF_JOB = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutScores:
    """How good some answers are; see the top of this file.

    Parameters
    ----------
    ratio_error, device_ratio_error, rank : float or None
        None where there is no pair of one job, none on two devices, or fewer than three rows.
    coverage, width : float or None
        Share inside the interval, and median of (high - low) / predicted; None for baselines.
    surprises : int
        Rows with an error beyond three half-widths.
    surprises_flagged, flagged : float or None
        Share of the surprises, and of all rows, that were called out of distribution.
    """

    rows: int
    mape: float
    median: float
    p90: float
    bias: float
    ratio_error: float | None
    device_ratio_error: float | None
    rank: float | None
    coverage: float | None = None
    width: float | None = None
    surprises: int = 0
    surprises_flagged: float | None = None
    flagged: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupCoverage:
    """Coverage of one group of rows.

    Parameters
    ----------
    coverage, wanted, width : float
        Share inside, share promised, median relative width.
    """

    group: str
    rows: int
    coverage: float
    wanted: float
    width: float


def score_answers(table: AnswerTable) -> HeldOutScores:
    """Score the answers of the learner.

    Parameters
    ----------
    table : AnswerTable
        At least one row.
    """
    plain = score_times(table, table.predicted_s)
    surprise = surprises(table)
    flagged = table.out_of_distribution
    values = asdict(plain) | {
        "coverage": float(table.inside.mean()),
        "width": relative_width(table),
        "surprises": int(surprise.sum()),
        "surprises_flagged": float(flagged[surprise].mean()) if surprise.any() else None,
        "flagged": float(flagged.mean()),
    }
    return HeldOutScores(**values)


def score_baseline(table: AnswerTable, name: str) -> HeldOutScores | None:
    """Score a baseline on the rows that it answers; None where it answers fewer than half."""
    times = table.baselines.get(name)
    if times is None:
        return None
    known = np.isfinite(times)
    if 2 * int(known.sum()) < len(table) or not known.any():
        return None
    return score_times(table.take(known), times[known])


def score_times(table: AnswerTable, times_s: FloatArray) -> HeldOutScores:
    """Score predicted times against the measured ones of a table.

    Parameters
    ----------
    table : AnswerTable
        At least one row.
    times_s : ndarray, shape (rows,)
    """
    error = np.abs(times_s / table.measured_s - 1.0)
    off = np.log(times_s / table.measured_s)
    rate = table.batch_size / times_s
    return HeldOutScores(
        rows=len(error),
        mape=float(error.mean()),
        median=float(np.median(error)),
        p90=float(np.quantile(error, 0.9)),
        bias=float(np.exp(off.mean()) - 1.0),
        ratio_error=ratio_error(jobs_of(table), off),
        device_ratio_error=ratio_error(jobs_of(table), off, apart=table.device),
        rank=spearman(rate, table.batch_size / table.measured_s) if len(error) >= 3 else None,
    )


def jobs_of(table: AnswerTable) -> StrArray:
    """Return a word per row that is equal for rows of one model and mode."""
    return np.char.add(np.char.add(table.model, "|"), table.mode)


def ratio_error(jobs: StrArray, off: FloatArray, apart: StrArray | None = None) -> float | None:
    """Return the mean error of throughput ratios within a job.

    Parameters
    ----------
    jobs : ndarray of str, shape (rows,)
    off : ndarray, shape (rows,)
        ``ln(T^ / T)``.
    apart : ndarray of str or None
        Only pairs in which this differs count.

    Returns
    -------
    float or None
        None where no job has such a pair.

    Examples
    --------
    Twice too slow on one side, right on the other: the ratio is off by a factor of two.

    >>> ratio_error(np.array(["a", "a", "b"]), np.log([2.0, 1.0, 5.0]))
    1.0
    """
    means = []
    for rows in _groups(jobs):
        if len(rows) < 2:
            continue
        if len(rows) > _MOST_OF_JOB:
            rows = rows[np.linspace(0, len(rows) - 1, _MOST_OF_JOB).astype(np.int64)]
        left, right = _pairs(len(rows))
        if apart is not None:
            differs = apart[rows[left]] != apart[rows[right]]
            left, right = left[differs], right[differs]
        if len(left):
            gap = np.abs(off[rows[left]] - off[rows[right]])
            means.append(float(np.expm1(gap).mean()))
    return float(np.mean(means)) if means else None


@cache
def _pairs(rows: int) -> tuple[IntArray, IntArray]:
    left, right = np.triu_indices(rows, k=1)
    return left.astype(np.int64), right.astype(np.int64)


def surprises(table: AnswerTable) -> BoolArray:
    """Return which rows miss by more than three half-widths of their interval."""
    half = (table.high_s - table.low_s) / 2.0
    return np.asarray(np.abs(table.predicted_s - table.measured_s) > SURPRISE * half)


def relative_width(table: AnswerTable) -> float:
    """Return the median of ``(high - low) / predicted``."""
    return float(np.median((table.high_s - table.low_s) / table.predicted_s))


def coverage_by(table: AnswerTable, groups: StrArray) -> list[GroupCoverage]:
    """Return the coverage of every group of at least :data:`LEAST_GROUP` rows, by name.

    Parameters
    ----------
    groups : ndarray of str, shape (rows,)
    """
    found = []
    for rows in _groups(groups):
        if len(rows) >= LEAST_GROUP:
            part = table.take(rows)
            found.append(
                GroupCoverage(
                    group=str(groups[rows[0]]),
                    rows=len(rows),
                    coverage=float(part.inside.mean()),
                    wanted=float(part.coverage.mean()),
                    width=relative_width(part),
                )
            )
    return found


def _groups(words: StrArray) -> Iterator[IntArray]:
    """Yield the positions of each distinct word, words sorted."""
    order = np.argsort(words, kind="stable")
    _, starts = np.unique(words[order], return_index=True)
    yield from (np.sort(part) for part in np.split(order, starts[1:]) if len(part))
