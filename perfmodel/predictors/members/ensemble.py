"""Several predictors mixed in logarithms, with weights learned on held-out families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.workload import Workload
from perfmodel.predictors.folds import CrossFit, Progress, family_folds
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    finite,
    not_below_bound,
    read_json,
    scaled_to,
    unfitted,
    write_json,
)
from perfmodel.predictors.registry import MemberFactory, predictor_class

DEFAULT_MEMBERS = ("operators", "gbdt", "gnn")

#: Steps between 0 and 1 that a weight may take.
_GRID = 20
#: A member whose error is this many times that of the best gets no weight.
WORST_RATIO = 4.0
#: How strongly weights are drawn to equality, in units of the error.
_EVENNESS = 0.01
#: A member further than this factor from the median of all is left out of an answer.
OUTLIER_FACTOR = 8.0


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
    settings : mapping or None
        Of members, by name: what :func:`.registry.new_predictor` takes; their own by default.
    engine : TaskEngine or None
        Where members are fitted; None: in this process, one after the other.
    """

    name: ClassVar[str] = "ensemble"

    def __init__(
        self,
        members: Sequence[str] = DEFAULT_MEMBERS,
        folds: int = 5,
        seed: int = 0,
        progress: Progress | None = None,
        *,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        engine: TaskEngine | None = None,
    ) -> None:
        self.members = tuple(members)
        self.folds = folds
        self.seed = seed
        self.progress = progress
        self.settings = settings or {}
        self.engine = engine
        self.predictors_: dict[str, Predictor] | None = None
        self.weights_: dict[str, float] = {}

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Learn the weights on held-out families, then every member on all samples.

        ``answers_`` holds what each member said of families that it had not seen.
        """
        check_samples(samples, least=4)
        cross = CrossFit(
            samples,
            family_folds(samples, self.folds),
            MemberFactory(seed=self.seed, settings=self.settings),
            self.progress,
            self.engine,
        )
        everything = [(member, frozenset[int]()) for member in self.members]
        cross.run([*(f for m in self.members for f in cross.fits_of(m)), *everything])
        self.answers_ = {member: cross.out_of_fold(member) for member in self.members}
        weights = fit_weights(
            np.stack(list(self.answers_.values()), axis=1),
            np.array([sample.step_time_s for sample in samples]),
            np.array([sample.weight for sample in samples]),
        )
        self.weights_ = dict(zip(self.members, weights.tolist(), strict=True))
        self.predictors_ = {member: cross.on_everything(member) for member in self.members}
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


def fit_weights(answers_s: FloatArray, times_s: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mix of members with the smallest mean relative error.

    ``T = exp(sum_m w_m log T_m)`` with ``w_m >= 0`` and ``sum_m w_m = 1``; all mixes in steps of
    1/20 are tried, so the result is the best one, and the same every time.

    Parameters
    ----------
    answers_s : ndarray, shape (samples, members)
        Answers for samples that the member has not learned from.
    times_s, weights : ndarray, shape (samples,)

    Returns
    -------
    ndarray, shape (members,)

    Raises
    ------
    TrainingError
        No member gives finite, positive answers.

    Examples
    --------
    The first member is exact, the second always 10 times too slow.

    >>> times = np.array([1.0, 2.0, 3.0])
    >>> fit_weights(np.stack([times, 10 * times], axis=1), times, np.ones(3)).tolist()
    [1.0, 0.0]
    """
    members = answers_s.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        sound = np.all(np.isfinite(answers_s) & (answers_s > 0), axis=0)
    if not sound.any():
        raise TrainingError("No predictor gave finite answers on held-out samples.")
    errors = np.full(members, np.inf)
    for member in np.flatnonzero(sound):
        relative = np.abs(answers_s[:, member] / times_s - 1.0)
        errors[member] = np.average(relative, weights=weights)
    kept = np.flatnonzero(errors <= WORST_RATIO * errors.min() + 1e-12)
    mixes = _simplex(len(kept))
    logs = np.log(answers_s[:, kept])
    mixed = np.exp(logs @ mixes.T) / times_s[:, None]
    score = np.average(np.abs(mixed - 1.0), axis=0, weights=weights)
    score = score + _EVENNESS * score.min() * (mixes**2).sum(axis=1)
    found = np.zeros(members)
    found[kept] = mixes[int(score.argmin())]
    return found


def _simplex(members: int) -> FloatArray:
    """All vectors of ``members`` multiples of 1/20 that add up to one."""
    bars = combinations(range(_GRID + members - 1), members - 1)
    rows = [np.diff([-1, *bar, _GRID + members - 1]) - 1 for bar in bars]
    return np.array(rows, dtype=np.float64) / _GRID


def mix(answers_s: FloatArray, weights: FloatArray) -> FloatArray:
    """Mix the answers of members, leaving out those that are no numbers or far from the rest.

    Parameters
    ----------
    answers_s : ndarray, shape (workloads, members)
    weights : ndarray, shape (members,)
        >= 0, at least one above 0.

    Returns
    -------
    ndarray, shape (workloads,)
        Finite and > 0 where at least one member of a workload is; NaN elsewhere.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(np.isfinite(answers_s) & (answers_s > 0), np.log(answers_s), np.nan)
    usable = np.isfinite(logs) & (weights > 0)
    if logs.shape[1] >= 3:
        filled = np.where(np.isfinite(logs), logs, np.inf)
        counts = np.maximum(np.isfinite(logs).sum(axis=1), 1)
        middle = np.take_along_axis(np.sort(filled, axis=1), ((counts - 1) // 2)[:, None], axis=1)
        near = np.abs(np.where(np.isfinite(logs), logs, np.inf) - middle) <= np.log(OUTLIER_FACTOR)
        usable = np.where((usable & near).any(axis=1, keepdims=True), usable & near, usable)
    share = np.where(usable, weights, 0.0)
    total = share.sum(axis=1)
    mixed = (share * np.where(usable, logs, 0.0)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: FloatArray = np.exp(np.where(total > 0, mixed / total, np.nan))
    return result
