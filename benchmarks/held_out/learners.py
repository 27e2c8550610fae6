"""What cross-validation asks of a learner and of a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.predictors.prediction import Prediction


class Learner(Protocol):
    """Learns from measured steps; answers with an interval; takes a few probes of a device."""

    def fit(self, samples: Sequence[StepSample], *, operators: Sequence[StepSample] = ()) -> Self:
        """Learn; everything chosen or calibrated is chosen and calibrated on these samples.

        ``operators`` were measured alone; a learner that has no use for them leaves them.
        """

    def predict(self, steps: Sequence[Step]) -> Sequence[Prediction]:
        """Answer each step."""

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        """Return a new learner that has taken a few records of a device into account.

        The learner itself stays as it is; nothing is trained from the start.
        """


@runtime_checkable
class AnswersAgain(Protocol):
    """A learner that is asked once and answers again after each adaptation."""

    def ask(self, steps: Sequence[Step]) -> Any:
        """Ask about steps; what is returned is for :meth:`answer` alone."""

    def answer(self, asked: Any) -> Sequence[Prediction]:
        """Answer as :meth:`Learner.predict` would."""


class Baseline(Protocol):
    """A simple predictor to stand beside."""

    def fit(self, samples: Sequence[StepSample]) -> Self:
        """Learn from measured steps."""

    def predict(self, steps: Sequence[Step]) -> FloatArray:
        """Return seconds, shape (steps,); NaN where the baseline has no answer."""

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        """Return a baseline that has taken a few records of a device into account."""


LearnerFactory = Callable[[int], Learner]
BaselineFactory = Callable[[int], Baseline]
