"""When the residuals of a group stop being what was promised: near zero."""

from __future__ import annotations

from typing import Protocol

from perfmodel.errors import MissingExtraError

#: Scores that a detector starts from: the promise, that there is no residual. Without it a group
#: that was off from its first observation would be its own normal.
PROMISED = 30
#: Settings of the Page-Hinkley test, in standard deviations of one residual: changes of the mean
#: by less than the first are let pass, and so much of what exceeds it is an alarm.
TOLERATED, THRESHOLD = 0.5, 12.0


class Detector(Protocol):
    """A change detector of ``river.drift``."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value showed a change."""

    def update(self, x: float) -> object:
        """Take the next value."""


def new_detector() -> Detector:
    """Return a detector that knows the promise alone.

    Raises
    ------
    MissingExtraError
        The library that holds it is absent.
    """
    try:
        from river.drift import PageHinkley
    except ModuleNotFoundError as error:
        raise MissingExtraError("Looking for drift", extra="retrain") from error
    found: Detector = PageHinkley(
        min_instances=PROMISED, delta=TOLERATED, threshold=THRESHOLD, alpha=1.0
    )
    for _ in range(PROMISED):
        found.update(0.0)
    return found
