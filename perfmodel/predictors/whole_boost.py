"""Boosted trees on whole-step columns, for many devices at once."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.whole_step import WHOLE_COLUMNS
from perfmodel.predictors.boosting import Booster, BoosterSettings

FloatArray = npt.NDArray[np.float64]


class WholeBoost:
    """Learns ``log(time / reference time)`` from the columns of whole steps.

    Parameters
    ----------
    seed : int
    rounds : int
        Trees.
    depth : int
    """

    def __init__(self, *, seed: int = 0, rounds: int = 500, depth: int = 6) -> None:
        self.seed = seed
        self.rounds = rounds
        self.depth = depth

    def fit(
        self,
        rows: npt.NDArray[np.float32],
        reference_log_s: FloatArray,
        log_times: FloatArray,
        weights: FloatArray,
    ) -> Self:
        """Learn from the columns of :func:`~perfmodel.features.whole_step.whole_rows`."""
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
            rows, log_times - reference_log_s, weights, WHOLE_COLUMNS, settings
        )
        return self

    def log_times(self, rows: npt.NDArray[np.float32], reference_log_s: FloatArray) -> FloatArray:
        """Return the logarithm of the time of each step."""
        return np.asarray(reference_log_s + self.booster_.predict(rows), dtype=np.float64)

    def save(self, folder: Path, stem: str) -> None:
        """Write the trees as JSON, with golden rows."""
        self.booster_.save(folder, stem)

    @classmethod
    def load(cls, folder: Path, stem: str) -> Self:
        """Read back what :meth:`save` wrote.

        Raises
        ------
        DamagedArtifactError
            A file that cannot be read, other columns, or other answers.
        """
        model = cls()
        model.booster_ = Booster.load(folder, stem, WHOLE_COLUMNS)
        return model
