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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.predictors.predictor import Predictor, Sample

Progress = Callable[[str], None]
Factory = Callable[[str], Predictor]


def unit_hash(word: str) -> float:
    """Return a number in [0, 1) that follows from a word alone."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:7], "big") / 2.0**56


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


@dataclass(frozen=True, kw_only=True)
class _Lessons:
    """What the fits of a cross-fit share."""

    samples: Sequence[Sample]
    fold: IntArray
    factory: Factory


#: One fit: the name of a predictor, and the folds that it does not see.
Fit = tuple[str, frozenset[int]]


class CrossFit:
    """Fits predictors without some folds and remembers what they answer for those.

    Parameters
    ----------
    fold : ndarray of int, shape (samples,)
    factory : callable
        Makes an unfitted predictor from its name; on an engine of many hosts one that can be
        pickled.
    engine : TaskEngine or None
        Where predictors are fitted; None: in this process, one after the other.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        fold: IntArray,
        factory: Factory,
        progress: Progress | None = None,
        engine: TaskEngine | None = None,
    ) -> None:
        self.samples = list(samples)
        self.fold = fold
        self.factory = factory
        self.progress = progress
        self.engine = engine or LocalEngine()
        self._answers: dict[Fit, FloatArray] = {}
        self._fitted: dict[str, Predictor] = {}

    def run(self, fits: Iterable[Fit]) -> None:
        """Run fits that were not run yet, as many at a time as the engine does.

        One that leaves nothing out is what :meth:`on_everything` returns.
        """
        missing = [
            fit for fit in dict.fromkeys(fits)
            if fit not in self._answers and (fit[1] or fit[0] not in self._fitted)
        ]  # fmt: skip
        lessons = _Lessons(samples=self.samples, fold=self.fold, factory=self.factory)
        for position, outcome in self.engine.run(_run, lessons, missing):
            fit = missing[position]
            if fit[1]:
                self._answers[fit] = cast(FloatArray, outcome)
            else:
                self._fitted[fit[0]] = cast(Predictor, outcome)
            if self.progress is not None:
                self.progress(f"fitted {fit[0]} {_seen(fit[1], len(self.samples))}")

    def on_everything(self, name: str) -> Predictor:
        """Return a predictor that was fitted on all samples."""
        self.run([(name, frozenset())])
        return self._fitted[name]

    def held_out(self, name: str, folds: frozenset[int]) -> FloatArray:
        """Return answers for the samples of some folds, from a fit on all others.

        Returns
        -------
        ndarray, shape (samples,)
            Seconds; NaN for samples of other folds.
        """
        self.run([(name, folds)])
        return self._answers[name, folds]

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
        fits = self.fits_of(name, without)
        self.run(fits)
        answers = np.full(len(self.samples), np.nan)
        for fit in fits:
            (fold,) = fit[1] - without
            chosen = self.fold == fold
            answers[chosen] = self._answers[fit][chosen]
        return answers

    def fits_of(self, name: str, without: frozenset[int] = frozenset()) -> list[Fit]:
        """Return the fits that :meth:`out_of_fold` needs."""
        folds = np.unique(self.fold).tolist()
        return [(name, without | {fold}) for fold in folds if fold not in without]


def _run(lessons: _Lessons, fit: Fit) -> FloatArray | Predictor:
    """Fit a predictor; return what it answers for the folds that it has not seen, or itself."""
    name, folds = fit
    outside = np.isin(lessons.fold, sorted(folds))
    predictor = lessons.factory(name)
    predictor.fit([s for s, out in zip(lessons.samples, outside, strict=True) if not out])
    if not folds:
        return predictor
    answers = np.full(len(outside), np.nan)
    chosen = np.flatnonzero(outside)
    answers[chosen] = predictor.predict([lessons.samples[i].workload for i in chosen.tolist()])
    return answers


def _seen(folds: frozenset[int], samples: int) -> str:
    return f"without folds {sorted(folds)}" if folds else f"on all {samples} samples"
