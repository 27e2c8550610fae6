"""Figures of merit of answers against measured times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.predictors.predictor import Sample


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How good answers are; relative errors are ``|T^ / T - 1|``.

    Parameters
    ----------
    mape, median_ape, p90_ape : float
        Mean, median and 90 % quantile of the relative errors.
    bias : float
        Geometric mean of ``T^ / T``, minus 1.
    rank : float or None
        Spearman's correlation of predicted and measured samples per second; None below 3.
    batch_ratio_error : float or None
        Mean relative error of the ratio of step times of two batch sizes of one model.
    coverage : float or None
        Share of measured times inside their interval.
    """

    count: int
    mape: float
    median_ape: float
    p90_ape: float
    bias: float
    rank: float | None
    batch_ratio_error: float | None
    coverage: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def score(
    samples: Sequence[Sample],
    answers_s: FloatArray,
    covered: npt.NDArray[np.bool_] | None = None,
) -> Scores:
    """Compare answers with measured times.

    Parameters
    ----------
    samples : sequence of Sample
        At least one.
    answers_s : ndarray, shape (samples,)
    covered : ndarray of bool or None
        Whether each measured time lay inside its interval.
    """
    times = np.array([sample.step_time_s for sample in samples])
    batch = np.array([float(sample.workload.batch_size) for sample in samples])
    errors = np.abs(answers_s / times - 1.0)
    return Scores(
        count=len(samples),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        p90_ape=float(np.quantile(errors, 0.9)),
        bias=float(np.exp(np.mean(np.log(answers_s / times))) - 1.0),
        rank=spearman(batch / answers_s, batch / times) if len(samples) >= 3 else None,
        batch_ratio_error=_batch_ratio_error(samples, answers_s / times),
        coverage=None if covered is None else float(covered.mean()),
    )


def spearman(left: FloatArray, right: FloatArray) -> float:
    """Return Spearman's rank correlation, in [-1, 1]; 0 when one side is constant.

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 40.0, 90.0]))
    1.0
    """
    a, b = _ranks(left), _ranks(right)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 0, equal values sharing their mean rank."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    middle: FloatArray = last - (count + 1) / 2.0
    return middle[inverse]


def _batch_ratio_error(samples: Sequence[Sample], ratios: FloatArray) -> float | None:
    """``ratios`` are predicted over measured; between two batch sizes their quotient is 1."""
    groups: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
    for sample, ratio in zip(samples, ratios.tolist(), strict=True):
        workload = sample.workload
        key = (
            sample.model, workload.accelerator.name, workload.mode.value,
            workload.precision.value, workload.memory_format.value, workload.compiler.value,
        )  # fmt: skip
        groups[key].append((workload.batch_size, ratio))
    errors = []
    for members in groups.values():
        members.sort()
        for (small, below), (large, above) in zip(members, members[1:], strict=False):
            if large > small:
                errors.append(abs(above / below - 1.0))
    return float(np.mean(errors)) if errors else None
