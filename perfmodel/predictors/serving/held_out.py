"""What the members of a model answered for samples that they had not learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.predictors.checks import finite
from perfmodel.predictors.members.stacking import mix
from perfmodel.predictors.serving.intervals import ConformalIntervals


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Answers of every member for samples that it had not learned from.

    Parameters
    ----------
    times_s : ndarray, shape (samples,)
    unseen : ndarray
        Log residuals on devices that were left out in turn; empty with one device.
    """

    devices: tuple[str, ...]
    times_s: FloatArray
    answers_s: Mapping[str, FloatArray]
    coverage: float
    unseen: FloatArray

    def intervals(self, weights: Mapping[str, float]) -> ConformalIntervals:
        """Return the intervals that a mix of members has earned."""
        answers = np.stack([self.answers_s[member] for member in weights], axis=1)
        return ConformalIntervals.fit(
            self.devices,
            mix(answers, np.array(list(weights.values()))),
            self.times_s,
            coverage=self.coverage,
            unseen=self.unseen if len(self.unseen) else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "devices": list(self.devices),
            "times_s": self.times_s.tolist(),
            "answers_s": {m: a.tolist() for m, a in self.answers_s.items()},
            "coverage": self.coverage,
            "unseen": self.unseen.tolist(),
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
            held_out = cls(
                devices=tuple(str(device) for device in stored["devices"]),
                times_s=np.array(stored["times_s"], dtype=np.float64),
                answers_s={
                    str(m): np.array(a, dtype=np.float64) for m, a in stored["answers_s"].items()
                },
                coverage=finite(stored["coverage"], path, low=0.01, high=0.999),
                unseen=np.array(stored["unseen"], dtype=np.float64),
            )
            columns = [held_out.times_s, *held_out.answers_s.values()]
            for column in columns:
                if column.shape != (len(held_out.devices),) or not np.all(column > 0):
                    raise ValueError("its arrays do not fit together")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(f"{path} holds no held-out answers: {error}.") from error
        return held_out
