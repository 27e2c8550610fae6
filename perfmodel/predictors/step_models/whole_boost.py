"""Boosted trees on whole-step columns, for many devices at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.whole_step import WHOLE_COLUMNS
from perfmodel.predictors.boosting import Booster, BoosterSettings, read_packed, write_packed

#: Part of a step that no slow path is believed to take, whatever its price says.
_LEAST_USUAL = 0.25


class WholeBoost:
    r"""Learns a ratio to the reference time from the columns of whole steps.

    With the reference ``R`` of contractions, other work and calls and the time ``X`` of slow
    paths, a step takes ``t = R exp(f(row)) + X``.

    Parameters
    ----------
    columns : sequence of str
        Which of ``WHOLE_COLUMNS`` it looks at.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        rounds: int = 500,
        depth: int = 6,
        columns: Sequence[str] = WHOLE_COLUMNS,
    ) -> None:
        self.seed = seed
        self._columns = tuple(columns)
        self.rounds = rounds
        self.depth = depth

    def fit(
        self,
        rows: npt.NDArray[np.float32],
        reference_s: FloatArray,
        log_times: FloatArray,
        weights: FloatArray,
    ) -> Self:
        """Learn from what :func:`~perfmodel.features.steps.whole_step.whole_rows` returns.

        Parameters
        ----------
        rows : ndarray of float32, shape (steps, len(WHOLE_COLUMNS))
        reference_s : ndarray, shape (steps, 4)
        log_times, weights : ndarray, shape (steps,)
            Logarithm of measured seconds; relative weight.
        """
        settings = BoosterSettings(
            rounds=self.rounds,
            depth=self.depth,
            learning_rate=0.05,
            min_child_weight=3.0,
            row_share=0.7,
            column_share=0.4,
            bins=128,
            seed=self.seed,
            tolerance=0.1,
        )
        self.booster_ = Booster.train(
            rows[:, self._read],
            _without_slow_paths(log_times, reference_s) - _log_reference(reference_s),
            weights,
            self._columns,
            settings,
        )
        return self

    def log_times(self, rows: npt.NDArray[np.float32], reference_s: FloatArray) -> FloatArray:
        """Return the logarithm of the time of each step."""
        usual = _log_reference(reference_s) + self.booster_.predict(rows[:, self._read])
        slow = reference_s[:, -1]
        return np.where(slow > 0, np.log(np.exp(usual) + slow), usual).astype(np.float64)

    @property
    def _read(self) -> list[int]:
        return [WHOLE_COLUMNS.index(name) for name in self._columns]

    def save(self, folder: Path, stem: str, *, packed: bool = False) -> None:
        """Write the trees as JSON, compressed where that is asked, with golden rows."""
        if packed:
            write_packed(folder, stem, self.booster_)
        else:
            self.booster_.save(folder, stem)

    @classmethod
    def load(
        cls,
        folder: Path,
        stem: str,
        *,
        columns: Sequence[str] = WHOLE_COLUMNS,
        packed: bool = False,
    ) -> Self:
        """Read back what :meth:`save` wrote.

        Parameters
        ----------
        columns : sequence of str
            That it was told to look at.

        Raises
        ------
        DamagedArtifactError
            A file that cannot be read, other columns, or other answers.
        """
        model = cls(columns=columns)
        read = read_packed if packed else Booster.load
        model.booster_ = read(folder, stem, model._columns)
        return model


def _log_reference(reference_s: FloatArray) -> FloatArray:
    return np.asarray(np.log(reference_s[:, :-1].sum(axis=1)))


def _without_slow_paths(log_times: FloatArray, reference_s: FloatArray) -> FloatArray:
    """Return log times less that of slow paths."""
    part = np.minimum(reference_s[:, -1] * np.exp(-log_times), 1.0 - _LEAST_USUAL)
    return np.asarray(log_times + np.log1p(-part))
