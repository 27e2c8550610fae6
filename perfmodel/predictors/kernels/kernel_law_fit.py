"""Find the constants of the law, with a level of each device beside them.

A device lies as a whole above or below the law (``ln time = ln law + level``): were its level not
a number of its own, the law would bend towards the devices with most calls. Constants are drawn to
what is expected and levels to none; levels are then forgotten, and on a device that was never seen
the law stands for itself.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from scipy.optimize import least_squares

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.kernels.kernel_columns import KernelRoofline
from perfmodel.predictors.kernels.kernel_law import FEW_CALLS, LawConstants, law_parts

#: Deviations of ln constant from what is expected, of ln level, and of a call.
_SPREADS = {
    "launch": 0.5, "operand": 1.0, "fill": 1.0, "occupancy": 1.5, "power": 0.5,
    "halving": 0.4, "reached": 0.2, "latency": 1.0, "sharpness": 0.5, "winograd": 0.5,
}  # fmt: skip
_LEVEL = 0.15
_CALL = 0.3
#: How many calls one expectation weighs: calls of one table err together.
_EXPECTED = 3.0
#: Calls that are fitted to; and how often the constants are moved.
_CALLS = 800
_MOVES = 8
_STEP = 1e-3
_NAMES = tuple(field.name for field in fields(LawConstants))


def fit_law(
    roofline: KernelRoofline,
    device: IntArray,
    time_s: FloatArray,
    stated_s: FloatArray,
    expected: LawConstants | None = None,
    *,
    tiled: bool,
    seed: int = 0,
) -> LawConstants:
    """Return the constants under which calls lie nearest to the law.

    Devices of many calls weigh the same, of few calls less.

    Parameters
    ----------
    roofline : KernelRoofline
        Bounds of the calls of one operator, or of operators that are alike.
    time_s, stated_s : ndarray, shape (calls,)
        Measured times, and launches as they are stated.
    expected : LawConstants or None
        What the constants are drawn to; None: the defaults.
    tiled : bool
        As for :func:`.kernel_law.law_parts`.
    """
    rows = np.random.default_rng(seed).permutation(len(time_s))[:_CALLS]
    own, stated, log_time = roofline.take(rows), stated_s[rows], np.log(time_s[rows])
    place = np.unique(device[rows], return_inverse=True)[1]
    few = FEW_CALLS * len(rows) / len(time_s)
    weight = 1.0 / np.sqrt(np.bincount(place)[place] + few)
    weight /= weight.mean() * _CALL
    before = np.log([getattr(expected or LawConstants(), name) for name in _NAMES])
    drawn = np.array([_SPREADS[name] for name in _NAMES]) / _EXPECTED
    levels = np.eye(int(place.max()) + 1)[place]

    def logs(x: FloatArray) -> FloatArray:
        return np.log(law_parts(own, stated, _constants(x), tiled=tiled).time_s)

    def residuals(z: FloatArray) -> FloatArray:
        x, level = z[: len(_NAMES)], z[len(_NAMES) :]
        off = (log_time - logs(x) - level[place]) * weight
        return np.concatenate([off, (x - before) / drawn, level * _EXPECTED / _LEVEL])

    def slopes(z: FloatArray) -> FloatArray:
        x, here = z[: len(_NAMES)], logs(z[: len(_NAMES)])
        moved = [logs(x + _STEP * one) - here for one in np.eye(len(_NAMES))]
        of_law = -np.stack(moved, axis=1) / _STEP * weight[:, None]
        of_calls = np.hstack([of_law, -levels * weight[:, None]])
        drawn_to = np.concatenate([1.0 / drawn, np.full(levels.shape[1], _EXPECTED / _LEVEL)])
        return np.vstack([of_calls, np.diag(drawn_to)])

    start = np.concatenate([before, np.zeros(levels.shape[1])])
    found = least_squares(residuals, start, slopes, loss="soft_l1", max_nfev=_MOVES)
    return _constants(found.x[: len(_NAMES)])


def _constants(logs: FloatArray) -> LawConstants:
    return LawConstants.from_dict(dict(zip(_NAMES, np.exp(logs).tolist(), strict=True)))
