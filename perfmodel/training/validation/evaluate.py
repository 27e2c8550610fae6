"""How good answers are for what was never profiled.

Every sample is answered by predictors that have not seen its family (or, in the random split,
the sample itself). The weights of the ensemble and its intervals are learned inside the
training part of each fold, from held-out answers within it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.asked import Asked
from perfmodel.intervals import COVERAGE
from perfmodel.predictors.folds import CrossFit, Progress
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS, fit_weights, mix
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.predictor_checks import check_samples
from perfmodel.predictors.registry import new_predictor
from perfmodel.predictors.serving.intervals import ConformalIntervals
from perfmodel.training.samples.samples import data_digest
from perfmodel.training.validation.held_out_folds import FOLDS, workload_folds
from perfmodel.training.validation.workload_scores import Scores, score

BASELINES = ("constant", "roofline", "efficiency")
ENSEMBLE = "ensemble"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Held-out answers of every predictor, with their scores.

    Parameters
    ----------
    fold : ndarray of int, shape (samples,)
    answers_s : mapping of str to ndarray
        Held-out answers by predictor; ``"ensemble"`` among them.
    weights : mapping of int to mapping of str to float
        Weights of the members when a fold was held out.
    """

    split: str
    seed: int
    coverage: float
    samples: tuple[Sample, ...]
    fold: IntArray
    answers_s: Mapping[str, FloatArray]
    low_s: FloatArray
    high_s: FloatArray
    weights: Mapping[int, Mapping[str, float]]
    data_digest: str
    duration_s: float

    @property
    def predictors(self) -> tuple[str, ...]:
        """Names, the ensemble first."""
        return tuple(self.answers_s)

    def scores(
        self, predictor: str = ENSEMBLE, *, mode: str | None = None, family: str | None = None
    ) -> Scores:
        """Return the scores of a predictor over all samples, or those of a mode or a family."""
        chosen = np.array(
            [
                (mode is None or s.workload.mode.value == mode)
                and (family is None or s.family == family)
                for s in self.samples
            ]
        )
        covered: npt.NDArray[np.bool_] | None = None
        if predictor == ENSEMBLE:
            times = np.array([sample.step_time_s for sample in self.samples])
            covered = ((self.low_s <= times) & (times <= self.high_s))[chosen]
        picked = [sample for sample, keep in zip(self.samples, chosen, strict=True) if keep]
        return score(picked, self.answers_s[predictor][chosen], covered)

    @property
    def families(self) -> tuple[str, ...]:
        """Families of the samples, sorted."""
        return tuple(sorted({sample.family for sample in self.samples}))

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes of the samples, sorted."""
        return tuple(sorted({sample.workload.mode.value for sample in self.samples}))

    def summary(self) -> dict[str, Any]:
        """Return everything but the single answers, as JSON values."""
        return {
            "split": self.split,
            "seed": self.seed,
            "samples": len(self.samples),
            "families": len(self.families),
            "models": len({sample.model for sample in self.samples}),
            "data_digest": self.data_digest,
            "duration_s": self.duration_s,
            "interval_coverage": self.coverage,
            "overall": {name: self.scores(name).to_dict() for name in self.predictors},
            "by_mode": {
                mode: {name: self.scores(name, mode=mode).to_dict() for name in self.predictors}
                for mode in self.modes
            },
            "by_family": {
                family: self.scores(ENSEMBLE, family=family).to_dict() for family in self.families
            },
            "weights": {str(fold): dict(w) for fold, w in self.weights.items()},
        }


def evaluate(
    samples: Sequence[Sample],
    *,
    split: str = "leave-family-out",
    members: Sequence[str] = DEFAULT_MEMBERS,
    folds: int = FOLDS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Answer every sample by predictors that have not learned from its group.

    Parameters
    ----------
    split : str
        ``"leave-family-out"`` or ``"random"``.
    members : sequence of str
        Predictors that the ensemble mixes; each is scored alone as well.

    Raises
    ------
    TrainingError
        Too few samples or families.
    InvalidInputError
        An unknown split.
    UnknownPredictorError
        An unknown member.
    """
    started = time.perf_counter()
    check_samples(samples, least=4)
    fold = workload_folds(samples, split, folds)
    cross = CrossFit(samples, fold, lambda name: new_predictor(name, seed=seed), progress)
    single = {name: cross.out_of_fold(name) for name in (*members, *BASELINES)}
    stacked = _Stacked(cross, tuple(members))
    for held in np.unique(fold).tolist():
        stacked.answer(held)
    return Evaluation(
        split=split,
        seed=seed,
        coverage=COVERAGE,
        samples=tuple(samples),
        fold=fold,
        answers_s={ENSEMBLE: stacked.answers_s, **single},
        low_s=stacked.answers_s * np.exp(-stacked.log_half),
        high_s=stacked.answers_s * np.exp(stacked.log_half),
        weights=stacked.weights,
        data_digest=data_digest(samples),
        duration_s=time.perf_counter() - started,
    )


class _Stacked:
    """The ensemble and its intervals, fold by fold, learned without the fold."""

    def __init__(self, cross: CrossFit, members: tuple[str, ...]) -> None:
        self.cross = cross
        self.members = members
        self.answers_s = np.full(len(cross.samples), np.nan)
        self.log_half = np.full(len(cross.samples), np.nan)
        self.weights: dict[int, dict[str, float]] = {}

    def answer(self, held: int) -> None:
        """Learn weights and interval on the other folds, then answer the held-out one."""
        test = np.flatnonzero(self.cross.fold == held)
        train = np.flatnonzero(self.cross.fold != held)
        samples = self.cross.samples
        times = np.array([samples[i].step_time_s for i in train])
        inner = self._answers(frozenset({held}), inner=True)[train]
        weights = fit_weights(inner, times, np.array([samples[i].weight for i in train]))
        self.weights[held] = dict(zip(self.members, weights.tolist(), strict=True))
        self.answers_s[test] = mix(self._answers(frozenset({held}), inner=False)[test], weights)
        intervals = ConformalIntervals.fit(
            [samples[i].workload.accelerator.name for i in train],
            mix(inner, weights),
            times,
            coverage=COVERAGE,
            asked=[Asked.of(samples[i].workload.graph) for i in train],
        )
        for i in test.tolist():
            workload = samples[i].workload
            width = intervals.half_width(workload.accelerator.name, Asked.of(workload.graph))
            self.log_half[i] = width.log_half

    def _answers(self, held: frozenset[int], *, inner: bool) -> FloatArray:
        answer = self.cross.out_of_fold if inner else self.cross.held_out
        return np.stack([answer(member, held) for member in self.members], axis=1)
