"""The plainest learner that keeps the contract: boosted trees on totals, with intervals.

It is what any other learner has to beat, and what the tests of held-out answers run.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
import report_path  # noqa: F401
from held_out.baselines import Totals
from held_out.step_totals import step_totals, total_columns

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.predictors.folds import family_fold
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis

#: Families are held out in so many parts to find out how wide intervals have to be.
_PARTS = 3
#: Prior standard deviation of the log factor of a device, and what is left on one probe.
_PRIOR, _NOISE = 0.4, 0.1


class PlainLearner:
    """Boosted trees on totals; intervals from errors on families held out while training.

    Parameters
    ----------
    coverage : float
        Of the intervals.
    rounds : int
        Trees.
    """

    def __init__(self, *, seed: int = 0, coverage: float = 0.9, rounds: int = 400) -> None:
        self.seed = seed
        self.coverage = coverage
        self.rounds = rounds

    def fit(self, samples: Sequence[StepSample], *, operators: Sequence[StepSample] = ()) -> Self:
        """Grow the trees; learn the width of intervals from held-out families."""
        self.model_ = self._grown(samples)
        part = np.array([family_fold(sample.family, _PARTS) for sample in samples])
        errors = []
        for held in np.unique(part).tolist():
            inside = [s for s, p in zip(samples, part, strict=True) if p != held]
            outside = [s for s, p in zip(samples, part, strict=True) if p == held]
            errors.append(_log_errors(self._grown(inside or samples), outside))
        off = np.sort(np.abs(np.concatenate(errors)))
        # Split conformal: the ceil((n + 1) coverage)-th smallest error.
        rank = min(int(np.ceil((len(off) + 1) * self.coverage)), len(off)) - 1
        self.width_ = float(off[rank])
        columns = total_columns([sample.step for sample in samples])
        self.low_, self.high_ = columns.min(axis=0), columns.max(axis=0)
        self.device_log_, self.device_ = 0.0, ""
        return self

    def predict(self, steps: Sequence[Step]) -> list[Prediction]:
        """Answer each step."""
        times = self.model_.predict(steps)
        columns = total_columns(steps)
        outside = ((columns < self.low_ - 0.5) | (columns > self.high_ + 0.5)).any(axis=1)
        return [
            self._answer(step, float(time_s), bool(far))
            for step, time_s, far in zip(steps, times, outside, strict=True)
        ]

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        """Scale the answers for the device of the probes by a shrunken mean of their errors."""
        adapted = copy.copy(self)
        errors = _log_errors(self.model_, probes)
        known = len(errors) / _NOISE**2
        adapted.device_log_ = float(errors.mean() * known / (known + 1.0 / _PRIOR**2))
        adapted.device_ = probes[0].step.accelerator.name
        return adapted

    def device_features(self, steps: Sequence[Step]) -> FloatArray:
        """Return a constant and the launches per second of roofline, shape (steps, 2)."""
        totals = [step_totals(step) for step in steps]
        launches = np.log10([t.launches / max(t.roofline_s, 1e-9) for t in totals])
        return np.stack([np.ones(len(steps)), (launches - 5.0) / 2.0], axis=1)

    @property
    def device_prior_(self) -> FloatArray:
        """Prior variances of the two coefficients of a device."""
        return np.array([_PRIOR**2, (_PRIOR / 2) ** 2])

    @property
    def noise_(self) -> float:
        """Standard deviation of a log time beside them."""
        return _NOISE

    def _grown(self, samples: Sequence[StepSample]) -> Totals:
        return Totals(seed=self.seed, rounds=self.rounds).fit(samples)

    def _answer(self, step: Step, time_s: float, far: bool) -> Prediction:
        if step.accelerator.name == self.device_:
            time_s *= float(np.exp(self.device_log_))
        return Prediction(
            time_s=time_s,
            low_s=time_s * float(np.exp(-self.width_)),
            high_s=time_s * float(np.exp(self.width_)),
            coverage=self.coverage,
            basis=Basis.EXTRAPOLATED if far else Basis.INTERPOLATED,
            out_of_distribution=far,
            nearest=(),
            model_version="plain/0",
        )


def _log_errors(model: Totals, samples: Sequence[StepSample]) -> FloatArray:
    """Measured over predicted, logarithms."""
    times = model.predict([sample.step for sample in samples])
    errors: FloatArray = np.log(np.array([s.step_time_s for s in samples]) / times)
    return errors
