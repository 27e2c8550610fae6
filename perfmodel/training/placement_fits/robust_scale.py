"""The scales that unknowns of a fit live on, and residuals that count for less far out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray


def robust(scaled: FloatArray) -> FloatArray:
    """Return residuals whose square grows as fast as the residual beyond 1."""
    return np.asarray(np.sign(scaled) * np.sqrt(2 * (np.hypot(1, scaled) - 1)))


def sigmoid(value: npt.ArrayLike) -> FloatArray:
    """Return the share in (0, 1) that a logit means."""
    return np.asarray(1 / (1 + np.exp(-np.asarray(value, dtype=np.float64))))


def logit(share: float) -> float:
    """Return the logarithm of the odds of a share."""
    return float(np.log(share / (1 - share)))
