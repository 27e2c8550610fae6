r"""What the facts of a device say about its effects: ridge regression over devices.

The effects ``u_d`` that the node network found for the devices it has records of are regressed
on their facts (peaks per watt, per byte, caches, ...)::

    u_d = a + facts_d B + e_d

A device counts by how well its effects are known, ``n / (n + RECORDS)`` for n records. The
penalty on B is the one with the smallest error on devices left out in turn; that error is the
variance with which a device without records is answered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Records with which the effects of a device are half known.
RECORDS = 10.0
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e6)
#: Spread that is believed of devices at least, whatever few devices say.
_LEAST_VARIANCE = 0.08**2
#: Devices below which their spread is not trusted to be that of all devices.
_FEW_DEVICES = 8


@dataclass(frozen=True, kw_only=True)
class EffectFacts:
    """Effects of a device that has no records.

    Parameters
    ----------
    typical : ndarray, shape (effects,)
    by_fact : ndarray, shape (facts, effects)
    variance : ndarray, shape (effects,)
        Of devices around it, measured on devices left out in turn.
    """

    typical: FloatArray
    by_fact: FloatArray
    variance: FloatArray


def regress_effects(
    facts: FloatArray, effects: FloatArray, records: npt.NDArray[np.int64]
) -> EffectFacts:
    """Fit effects to facts.

    Parameters
    ----------
    facts : ndarray, shape (devices, facts)
    effects : ndarray, shape (devices, effects)
    records : ndarray of int64, shape (devices,)
        How many steps of each device were learned from.
    """
    weight = records / (records + RECORDS)

    def variance(penalty: float) -> FloatArray:
        errors = _left_out(facts, effects, weight, penalty)
        return np.asarray(np.average(errors**2, axis=0, weights=weight))

    penalty = min(_PENALTIES, key=lambda p: float(variance(p).sum()))
    typical, by_fact = _ridge(facts, effects, weight, penalty)
    least = _LEAST_VARIANCE * (4.0 if len(facts) < _FEW_DEVICES else 1.0)
    return EffectFacts(
        typical=typical, by_fact=by_fact, variance=np.maximum(variance(penalty), least)
    )


def _ridge(
    facts: FloatArray, effects: FloatArray, weight: FloatArray, penalty: float
) -> tuple[FloatArray, FloatArray]:
    middle = np.average(facts, axis=0, weights=weight)
    typical = np.asarray(np.average(effects, axis=0, weights=weight))
    centred = (facts - middle) * weight[:, None]
    normal = centred.T @ (facts - middle) + penalty * np.eye(facts.shape[1])
    by_fact = np.linalg.solve(normal, centred.T @ (effects - typical))
    return np.asarray(typical - middle @ by_fact), np.asarray(by_fact)


def _left_out(
    facts: FloatArray, effects: FloatArray, weight: FloatArray, penalty: float
) -> FloatArray:
    if len(facts) < 3:
        return np.asarray(effects - effects.mean(axis=0))
    errors = np.zeros_like(effects)
    for device in range(len(facts)):
        rest = np.arange(len(facts)) != device
        typical, by_fact = _ridge(facts[rest], effects[rest], weight[rest], penalty)
        errors[device] = effects[device] - typical - facts[device] @ by_fact
    return errors
