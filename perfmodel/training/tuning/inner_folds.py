"""How good settings are, judged inside what is learned from: on families left out in turn.

Nothing that a version is judged on later is seen here: whoever trains has kept that back before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import family_folds, unit_hash
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_members import FitTask
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.registry import new_predictor
from perfmodel.training.tuning.families import is_searched_on
from perfmodel.training.tuning.spaces import NETWORK, TREES
from perfmodel.training.validation.held_out_folds import identity

#: Parts of the families that are left out in turn.
INNER_FOLDS = 3
#: Steps of the corpus that settings are judged on, chosen by hash.
MOST_STEPS = 3000

Settings = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Question:
    """How good a learner with some settings is without one fold."""

    learner: str
    settings: Settings
    fold: int


@dataclass(frozen=True, kw_only=True)
class InnerFolds:
    """What all questions share.

    Parameters
    ----------
    fold : ndarray of int, shape (samples,)
    task : FitTask or None
        Of the joint predictor, with folds of its own.
    """

    samples: Sequence[Sample]
    fold: IntArray
    task: FitTask | None
    seed: int

    @classmethod
    def of(
        cls, samples: Sequence[Sample], corpus: Sequence[StepSample], *, seed: int
    ) -> InnerFolds:
        """Divide what is learned from; a part of the own families takes no part.

        The answers that members give when such a family is left out are judged on.

        Raises
        ------
        TrainingError
            Too few families to leave any out.
        """
        own = [one for one in samples if is_searched_on(one.family)]
        chosen = sorted(corpus, key=lambda one: unit_hash(f"tuning:{identity(one)}"))[:MOST_STEPS]
        joint = JointPredictor(seed=seed, folds=INNER_FOLDS)
        return cls(
            samples=own,
            fold=family_folds(own, INNER_FOLDS),
            task=joint.task_of(chosen) if chosen else None,
            seed=seed,
        )

    def errors(self, question: Question) -> tuple[float, float]:
        """Return the sum of weighted errors, ``|ln(answer / measured)|``, and that of the weights.

        Both are 0 where no sample lies in the fold.
        """
        if question.learner in (NETWORK, TREES):
            logs, held = self._joint_errors(question)
            weights = self.task.weights[held] if self.task is not None else held
        else:
            logs, held = self._member_errors(question)
            weights = np.array([self.samples[i].weight for i in held.tolist()])
        return float((weights * np.abs(logs)).sum()), float(weights.sum())

    def _member_errors(self, question: Question) -> tuple[FloatArray, IntArray]:
        held = np.flatnonzero(self.fold == question.fold)
        rest = np.flatnonzero(self.fold != question.fold)
        if not len(held) or not len(rest):
            return np.zeros(0), held[:0]
        learner = new_predictor(question.learner, seed=self.seed, settings=question.settings)
        learner.fit([self.samples[i] for i in rest.tolist()])
        own = [self.samples[i] for i in held.tolist()]
        answers = learner.predict([sample.workload for sample in own])
        return np.log(answers / [sample.step_time_s for sample in own]), held

    def _joint_errors(self, question: Question) -> tuple[FloatArray, IntArray]:
        assert self.task is not None, "only asked where there is a corpus"
        held = np.flatnonzero(self.task.fold == question.fold)
        if not len(held) or len(held) == len(self.task.fold):
            return np.zeros(0), held[:0]
        settings = replace(self.task.settings, **question.settings)  # type: ignore[arg-type]
        task = replace(self.task, settings=settings)
        if question.learner == NETWORK:
            logs, _ = task.network(question.fold).log_times(task.table, held)
        else:
            logs = task.trees(question.fold).log_times(task.rows[held], task.reference_s[held])
        return logs - task.log_times[held], held
