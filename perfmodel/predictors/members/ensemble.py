"""Several predictors mixed in logarithms, with weights learned on held-out families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.workload import Workload
from perfmodel.predictors.checks import (
    check_samples,
    finite,
    not_below_bound,
    read_json,
    scaled_to,
    unfitted,
    write_json,
)
from perfmodel.predictors.folds import CrossFit, family_folds
from perfmodel.predictors.members.stacking import fit_weights, mix
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.registry import new_predictor, predictor_class

DEFAULT_MEMBERS = ("operators", "gbdt", "gnn")


@final
class EnsemblePredictor(Predictor):
    """Mixes predictors: ``T = exp(sum_m w_m log T_m)``, ``w_m >= 0``, ``sum_m w_m = 1``.

    The weights minimise the mean relative error of answers for families that a member has not
    seen. A member that is no number, or far from the others, is left out of that answer.

    Parameters
    ----------
    members : sequence of str
        Names in the register of predictors.
    folds : int
        Groups of families for the held-out answers.
    """

    name: ClassVar[str] = "ensemble"

    def __init__(
        self, members: Sequence[str] = DEFAULT_MEMBERS, folds: int = 5, seed: int = 0
    ) -> None:
        self.members = tuple(members)
        self.folds = folds
        self.seed = seed
        self.predictors_: dict[str, Predictor] | None = None
        self.weights_: dict[str, float] = {}

    @classmethod
    def of(
        cls, predictors: Mapping[str, Predictor], weights: Mapping[str, float]
    ) -> EnsemblePredictor:
        """Put fitted predictors together with known weights."""
        ensemble = cls(tuple(predictors))
        ensemble.predictors_ = dict(predictors)
        ensemble.weights_ = dict(weights)
        return ensemble

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Learn the weights on held-out families, then every member on all samples."""
        check_samples(samples, least=4)
        cross = CrossFit(
            samples, family_folds(samples, self.folds), lambda m: new_predictor(m, seed=self.seed)
        )
        answers = np.stack([cross.out_of_fold(m) for m in self.members], axis=1)
        weights = fit_weights(
            answers,
            np.array([sample.step_time_s for sample in samples]),
            np.array([sample.weight for sample in samples]),
        )
        self.weights_ = dict(zip(self.members, weights.tolist(), strict=True))
        self.predictors_ = {
            member: new_predictor(member, seed=self.seed).fit(samples) for member in self.members
        }
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the mixed answer of each workload."""
        if self.predictors_ is None:
            raise unfitted(self.name)
        if not workloads:
            return np.zeros(0)
        answers = np.stack([p.predict(workloads) for p in self.predictors_.values()], axis=1)
        weights = np.array([self.weights_[member] for member in self.predictors_])
        return not_below_bound(mix(answers, weights), workloads)

    def predict_nodes(self, workload: Workload) -> FloatArray | None:
        """Return node times of the heaviest member that has them, scaled to the mixed step."""
        if self.predictors_ is None:
            raise unfitted(self.name)
        for member in sorted(self.predictors_, key=lambda m: -self.weights_[m]):
            times = self.predictors_[member].predict_nodes(workload)
            if times is not None and times.sum() > 0:
                return scaled_to(times, float(self.predict([workload])[0]))
        return None

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the weights, and every member into a folder of its own."""
        if self.predictors_ is None:
            raise unfitted(self.name)
        facts = {m: dict(p.save(folder / m)) for m, p in self.predictors_.items()}
        write_json(folder / "ensemble.json", {"weights": self.weights_})
        return {"weights": self.weights_, "members": facts}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote."""
        path = folder / "ensemble.json"
        weights = read_weights(read_json(path).get("weights"), path)
        ensemble = cls(tuple(weights))
        ensemble.weights_ = weights
        ensemble.predictors_ = {m: predictor_class(m).load(folder / m) for m in weights}
        return ensemble


def read_weights(stored: Any, path: Path) -> dict[str, float]:
    """Read the weights of an ensemble.

    Raises
    ------
    DamagedArtifactError
        No weights, or a weight outside [0, 1], or none above 0.
    """
    if not isinstance(stored, Mapping) or not stored:
        raise DamagedArtifactError(f"{path} holds no weights.")
    weights = {str(m): finite(w, path, low=0.0, high=1.0) for m, w in stored.items()}
    if not any(weights.values()):
        raise DamagedArtifactError(f"{path} gives every member the weight 0.")
    return weights
