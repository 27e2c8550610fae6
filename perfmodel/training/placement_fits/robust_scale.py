"""The scale that shares of a fit live on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray


def sigmoid(value: npt.ArrayLike) -> FloatArray:
    """Return the share in (0, 1) that a logit means."""
    return np.asarray(1 / (1 + np.exp(-np.asarray(value, dtype=np.float64))))


def logit(share: float) -> float:
    """Return the logarithm of the odds of a share."""
    return float(np.log(share / (1 - share)))
