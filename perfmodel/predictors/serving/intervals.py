"""Intervals by split conformal prediction on log residuals, per device and what is asked.

For residuals ``r_i = |log T_i - log T^_i|`` of samples that the predictor had not seen, the
interval ``T^ * exp(+-q)`` with ``q`` the ``ceil((n + 1) c)``-th smallest residual covers a
further sample of the same kind with probability at least ``c``. Devices are kept apart, and on a
device operators alone from whole steps: one quantile for all would cover the worst of them too
rarely, and be too wide for the others. A group with few residuals gets a higher quantile, so that
its coverage holds with 90 % confidence and not on average alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.asked import Asked
from perfmodel.predictors.members.ensemble import mix
from perfmodel.predictors.predictor_checks import finite

#: Fewest residuals of a device whose quantile is taken as it stands.
ENOUGH_RESIDUALS = 200
#: Half-width (as a factor) on devices without any measurement, where no second device tells
#: how far such answers are off. An assumption: twice or half the answer, and a margin.
ASSUMED_UNSEEN_FACTOR = 2.5
#: Extra width outside of what was learned from.
OUTSIDE_FACTOR = 2.0
#: One-sided 90 % point of the standard normal distribution.
_CONFIDENCE = 1.2816


@dataclass(frozen=True, kw_only=True)
class HalfWidth:
    """Half-width of an interval in logarithms, and what to say about it."""

    log_half: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ConformalIntervals:
    """Residuals per device and what is asked, sorted, and those of devices left out in turn.

    Parameters
    ----------
    residuals : mapping of tuple to tuple of float
        Absolute log residuals of held-out samples by device and what was asked.
    unseen_residuals : tuple of float
        Residuals of answers for devices that were left out; empty with a single device.
    coverage : float
        Wanted share of covered values, in (0, 1).
    """

    residuals: Mapping[tuple[str, Asked], tuple[float, ...]]
    unseen_residuals: tuple[float, ...] = ()
    coverage: float = 0.9

    @classmethod
    def fit(
        cls,
        devices: Sequence[str],
        answers_s: FloatArray,
        times_s: FloatArray,
        *,
        coverage: float = 0.9,
        unseen: FloatArray | None = None,
        asked: Sequence[Asked] | None = None,
    ) -> ConformalIntervals:
        """Collect residuals of held-out answers.

        Parameters
        ----------
        asked : sequence of Asked or None
            What each answer was about; None: whole steps.
        answers_s, times_s : ndarray, shape (samples,)
            Held-out answers and measured times.
        unseen : ndarray or None
            Log residuals of answers for left-out devices.

        Raises
        ------
        TrainingError
            An answer that is not finite and positive.
        """
        residuals = np.abs(np.log(times_s) - np.log(answers_s))
        if not np.all(np.isfinite(residuals)):
            raise TrainingError("A held-out answer is not finite; intervals cannot be fitted.")
        asked = asked or [Asked.STEP] * len(devices)
        found: dict[tuple[str, Asked], list[float]] = {}
        for device, what, residual in zip(devices, asked, residuals.tolist(), strict=True):
            found.setdefault((device, what), []).append(residual)
        groups = {group: tuple(sorted(own)) for group, own in sorted(found.items())}
        others = () if unseen is None else tuple(np.sort(np.abs(unseen)).tolist())
        return cls(residuals=groups, unseen_residuals=others, coverage=coverage)

    def half_width(
        self, device: str, asked: Asked = Asked.STEP, *, outside: bool = False
    ) -> HalfWidth:
        """Return the half-width of intervals on a device.

        Parameters
        ----------
        outside : bool
            The workload lies outside of what was learned from.
        """
        own, warnings = self._of_group(device, asked)
        if not own:
            return self._unseen(device)
        half = conformal_quantile(own, self.coverage, careful=False)
        if len(own) < ENOUGH_RESIDUALS:
            half = conformal_quantile(own, self.coverage, careful=True)
            warnings.append(
                f"The interval rests on {len(own)} held-out measurements of {device}, fewer than "
                f"{ENOUGH_RESIDUALS}; it was widened."
            )
        if outside:
            half *= OUTSIDE_FACTOR
            warnings.append(
                "The workload lies outside of what was measured; the interval was widened by "
                f"an assumed factor of {OUTSIDE_FACTOR:g}."
            )
        return HalfWidth(log_half=half, warnings=tuple(warnings))

    def _of_group(self, device: str, asked: Asked) -> tuple[tuple[float, ...], list[str]]:
        """Return the residuals of what is asked, or of all there is of a device, and say so."""
        own = self.residuals.get((device, asked))
        if own is not None:
            return own, []
        all_of_it = [
            r for (name, _), some in self.residuals.items() if name == device for r in some
        ]
        return tuple(sorted(all_of_it)), [
            f"No {asked} was measured on {device}; the interval is that of what was."
        ]

    def _unseen(self, device: str) -> HalfWidth:
        if self.unseen_residuals:
            half = conformal_quantile(self.unseen_residuals, self.coverage, careful=True)
            text = "the interval comes from devices that were left out in turn"
        else:
            half = math.log(ASSUMED_UNSEEN_FACTOR)
            text = f"the interval is an assumed factor of {ASSUMED_UNSEEN_FACTOR:g} either way"
        warning = f"There are no measurements of {device}: {text}."
        return HalfWidth(log_half=half, warnings=(warning,))


def conformal_quantile(residuals: Sequence[float], coverage: float, *, careful: bool) -> float:
    """Return the residual that a further one stays below with the wanted probability.

    Parameters
    ----------
    residuals : sequence of float
        Sorted, >= 0, at least one.
    coverage : float
        In (0, 1).
    careful : bool
        Raise the level by 1.28 standard deviations of the coverage reached with ``n`` residuals,
        ``sqrt(c (1 - c) / n)``. Where even the largest residual is too small, 1.5 times that.

    Examples
    --------
    Ten residuals, 80 %: the ceil(11 * 0.8) = 9th smallest.

    >>> conformal_quantile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.8, careful=False)
    9.0
    """
    count = len(residuals)
    level = coverage
    if careful:
        level += _CONFIDENCE * math.sqrt(coverage * (1 - coverage) / count)
    rank = math.ceil((count + 1) * level - 1e-9)
    if rank > count:
        return 1.5 * float(residuals[-1])
    return float(residuals[rank - 1])


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Answers of every member for samples that it had not learned from.

    Parameters
    ----------
    times_s : ndarray, shape (samples,)
    unseen : ndarray
        Log residuals on devices that were left out in turn; empty with one device.
    asked : tuple of Asked
        What each answer was about.
    """

    devices: tuple[str, ...]
    times_s: FloatArray
    answers_s: Mapping[str, FloatArray]
    coverage: float
    unseen: FloatArray
    asked: tuple[Asked, ...]

    def intervals(self, weights: Mapping[str, float]) -> ConformalIntervals:
        """Return the intervals that a mix of members has earned."""
        answers = np.stack([self.answers_s[member] for member in weights], axis=1)
        return ConformalIntervals.fit(
            self.devices,
            mix(answers, np.array(list(weights.values()))),
            self.times_s,
            coverage=self.coverage,
            unseen=self.unseen if len(self.unseen) else None,
            asked=self.asked,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "devices": list(self.devices),
            "times_s": self.times_s.tolist(),
            "answers_s": {m: a.tolist() for m, a in self.answers_s.items()},
            "coverage": self.coverage,
            "unseen": self.unseen.tolist(),
            "asked": list(self.asked),
        }

    @classmethod
    def from_dict(cls, stored: Any, path: Path) -> HeldOut:
        """Read the answers back.

        Raises
        ------
        DamagedArtifactError
            Arrays that do not fit together, or times that are not finite and positive.
        """
        try:
            devices = tuple(str(device) for device in stored["devices"])
            held_out = cls(
                devices=devices,
                times_s=np.array(stored["times_s"], dtype=np.float64),
                answers_s={
                    str(m): np.array(a, dtype=np.float64) for m, a in stored["answers_s"].items()
                },
                coverage=finite(stored["coverage"], path, low=0.01, high=0.999),
                unseen=np.array(stored["unseen"], dtype=np.float64),
                asked=tuple(map(Asked, stored["asked"])),
            )
            columns = [held_out.times_s, *held_out.answers_s.values()]
            if len(held_out.asked) != len(devices):
                raise ValueError("it does not say of each answer what it was about")
            for column in columns:
                if column.shape != (len(devices),) or not np.all(column > 0):
                    raise ValueError("its arrays do not fit together")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(f"{path} holds no held-out answers: {error}.") from error
        return held_out
