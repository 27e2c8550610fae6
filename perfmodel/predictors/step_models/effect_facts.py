r"""What the facts of a device say about its effects: ridge regression over devices.

The effects ``u_d`` that the node network found for the devices it has records of are regressed
on their facts (peaks per watt, per byte, caches, ...)::

    u_d = a + facts_d B + e_d

A device counts by how well each of its effects is known, ``n / (n + RECORDS)`` for n records. The
penalty on B is the one with the smallest error on devices left out in turn; that error is the
variance with which a device without records is answered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray

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
    records : ndarray of int64, shape (devices, effects)
        How many records of each device tell of each effect; 0 where none does.
    """
    weight = records / (records + RECORDS)

    def variance(penalty: float) -> FloatArray:
        return np.array(
            [
                np.average(_left_out(facts, own, w, penalty) ** 2, weights=w)
                for own, w in zip(effects.T, weight.T, strict=True)
            ]
        )

    penalty = min(_PENALTIES, key=lambda p: float(variance(p).sum()))
    fitted = [_ridge(facts, own, w, penalty) for own, w in zip(effects.T, weight.T, strict=True)]
    few = np.count_nonzero(records, axis=0) < _FEW_DEVICES
    least = _LEAST_VARIANCE * np.where(few, 4.0, 1.0)
    return EffectFacts(
        typical=np.array([typical for typical, _ in fitted]),
        by_fact=np.stack([by_fact for _, by_fact in fitted], axis=1),
        variance=np.maximum(variance(penalty), least),
    )


def _ridge(
    facts: FloatArray, effect: FloatArray, weight: FloatArray, penalty: float
) -> tuple[float, FloatArray]:
    middle = np.average(facts, axis=0, weights=weight)
    typical = float(np.average(effect, weights=weight))
    centred = (facts - middle) * weight[:, None]
    normal = centred.T @ (facts - middle) + penalty * np.eye(facts.shape[1])
    by_fact = np.linalg.solve(normal, centred.T @ (effect - typical))
    return float(typical - middle @ by_fact), np.asarray(by_fact)


def _left_out(
    facts: FloatArray, effect: FloatArray, weight: FloatArray, penalty: float
) -> FloatArray:
    """Return how far each device lies from what the others say of it; 0 where it has no weight."""
    heard = np.flatnonzero(weight)
    errors = np.zeros(len(facts))
    if len(heard) < 3:
        errors[heard] = effect[heard] - effect[heard].mean()
        return errors
    for device in heard:
        rest = heard[heard != device]
        typical, by_fact = _ridge(facts[rest], effect[rest], weight[rest], penalty)
        errors[device] = effect[device] - typical - facts[device] @ by_fact
    return errors
