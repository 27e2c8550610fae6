"""Frozen folds by family, and answers for samples that a predictor has not learned from.

The fold of a family follows from its name alone, so that a new profile run never moves a family
from one side of a split to the other.

Stacked weights need answers for samples outside the training set, *inside* the training part of
an outer split. With the same folds outside and inside, the model that has seen neither fold j
nor fold k serves twice: for j when k is the test fold, and for k when j is. Five folds then
take 10 + 5 fits instead of 20 + 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.predictors.predictor import Predictor, Sample

Progress = Callable[[str], None]
Factory = Callable[[str], Predictor]


def family_fold(family: str, folds: int) -> int:
    """Return the fold of a family, from a hash of its name.

    Parameters
    ----------
    folds : int
        How many folds there are, >= 2.

    Returns
    -------
    int
        In ``range(folds)``.
    """
    digest = hashlib.sha256(f"fold:{family}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % folds


def family_folds(samples: Sequence[Sample], folds: int) -> IntArray:
    """Return the fold of each sample by its family.

    Raises
    ------
    TrainingError
        All families fall into one fold: nothing can be held out.
    """
    found = np.array([family_fold(s.family, folds) for s in samples], dtype=np.int64)
    if len(np.unique(found)) < 2:
        raise TrainingError(
            f"{len({s.family for s in samples})} families fall into one of {folds} folds; "
            "profile more families."
        )
    return found


class CrossFit:
    """Fits predictors without some folds and remembers what they answer for those.

    Parameters
    ----------
    fold : ndarray of int, shape (samples,)
    factory : callable
        Makes an unfitted predictor from its name.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        fold: IntArray,
        factory: Factory,
        progress: Progress | None = None,
    ) -> None:
        self.samples = list(samples)
        self.fold = fold
        self.factory = factory
        self.progress = progress
        self._answers: dict[tuple[str, frozenset[int]], FloatArray] = {}

    def held_out(self, name: str, folds: frozenset[int]) -> FloatArray:
        """Return answers for the samples of some folds, from a fit on all others.

        Returns
        -------
        ndarray, shape (samples,)
            Seconds; NaN for samples of other folds.
        """
        key = (name, folds)
        if key not in self._answers:
            outside = np.isin(self.fold, sorted(folds))
            predictor = self.factory(name)
            predictor.fit([s for s, out in zip(self.samples, outside, strict=True) if not out])
            answers = np.full(len(self.samples), np.nan)
            chosen = np.flatnonzero(outside)
            answers[chosen] = predictor.predict([self.samples[i].workload for i in chosen])
            self._answers[key] = answers
            if self.progress is not None:
                self.progress(f"fitted {name} without folds {sorted(folds)}")
        return self._answers[key]

    def out_of_fold(self, name: str, without: frozenset[int] = frozenset()) -> FloatArray:
        """Return, for every sample, the answer of a fit that has not seen its fold.

        Parameters
        ----------
        without : frozenset of int
            Folds that no fit may see; their samples get NaN.

        Returns
        -------
        ndarray, shape (samples,)
        """
        answers = np.full(len(self.samples), np.nan)
        for fold in np.unique(self.fold).tolist():
            if fold not in without:
                chosen = self.fold == fold
                answers[chosen] = self.held_out(name, without | {fold})[chosen]
        return answers
