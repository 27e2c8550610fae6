"""One line of the accuracy report of the placement floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from perfmodel.features.arrays import FloatArray


@dataclass(frozen=True, kw_only=True)
class Line:
    """Held-out answers to one kind of question.

    Parameters
    ----------
    name : str
        Short word, for files: ``"sia-3-observed"``.
    title : str
        For people: what was asked, and what was never seen.
    measured, predicted : ndarray, shape (rows,)
        What was measured and what was answered, > 0, in the same unit (seconds, bytes).
    groups : sequence of str
        What each row was left out with: a device, a cluster, a model size.
    jobs : sequence of str
        Rows of one job are compared with each other (ratio error and rank).
    baselines : mapping of str to ndarray, shape (rows,)
        Answers of what stands beside it, by name; NaN where one has no answer.
    target : float or None
        MAPE to reach, as a share.
    low, high : ndarray or None
        Ends of the intervals, where there are any.
    note : str
        What a reader has to know: how the split was made, what was left out.
    """

    name: str
    title: str
    measured: FloatArray
    predicted: FloatArray
    groups: Sequence[str]
    jobs: Sequence[str]
    baselines: Mapping[str, FloatArray] = field(default_factory=lambda: MappingProxyType({}))
    target: float | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None
    note: str = ""

    def __post_init__(self) -> None:
        rows = len(self.measured)
        columns = [self.predicted, self.groups, self.jobs, *self.baselines.values()]
        if any(len(column) != rows for column in columns):
            raise ValueError(f"{self.name}: every column needs {rows} rows.")

    def errors(self, baseline: str | None = None) -> FloatArray:
        """Return relative errors of the rows, NaN where a baseline has no answer."""
        answers = self.predicted if baseline is None else self.baselines[baseline]
        return np.asarray(np.abs(answers / self.measured - 1))
