"""Regimes of the joint predictor: which samples weigh how much, and which member is trusted where.

A *regime* is a kind of device with a mode, a compiler and a framework; a *group* is a device in a
regime. A regime of which too little was measured is answered for by the larger one around it, which
leaves the last words out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step import StepSample
from perfmodel.features.steps.step_table import SETTING_COLUMNS, StepTable
from perfmodel.predictors.folds import family_fold
from perfmodel.types import Framework

Regime = tuple[str, ...]

#: Last words of regimes: frameworks of which enough is measured, and all others.
_ANOTHER = "another"
FRAMEWORK_WORDS = (Framework.PYTORCH.value, Framework.TENSORFLOW.value, _ANOTHER)

#: Weights of the network that are tried; neither side is ever silent.
_MIX_STEPS = np.linspace(0.2, 0.8, 7)
#: Logarithmic error beyond which a step says nothing about the mix.
_FAR_OFF = 0.5
#: Rows below which a regime has nothing of its own.
_FEWEST_ROWS = 100
#: A device with this many samples has weight 1; others grow and shrink by a power of the ratio.
_TYPICAL_COUNT, _BALANCE, _BALANCE_LIMITS = 1000.0, 0.35, (0.5, 4.0)


def balanced(samples: Sequence[StepSample]) -> FloatArray:
    """Return weights under which a device with few samples is heard beside one with thousands."""
    own = [f"{sample.source}|{sample.step.accelerator.name}" for sample in samples]
    _, place, counts = np.unique(np.array(own), return_inverse=True, return_counts=True)
    balance = np.clip((_TYPICAL_COUNT / counts[place]) ** _BALANCE, *_BALANCE_LIMITS)
    return np.asarray(balance * [sample.weight for sample in samples], dtype=np.float64)


def even_folds(
    families: Sequence[str], folds: int, known: Mapping[str, int] | None = None
) -> IntArray:
    """Return the fold of each sample: large families first, each to the emptiest fold.

    Parameters
    ----------
    known : mapping of str to int or None
        Folds that families have had before and keep, as far as there are so many.
    """
    names, counts = np.unique(np.array(families), return_counts=True)
    size = dict(zip(names.tolist(), counts.tolist(), strict=True))
    fold_of = {f: k for f, k in (known or {}).items() if f in size and k < folds}
    load = np.zeros(folds)
    for family, fold in fold_of.items():
        load[fold] += size[family]
    for family in sorted(size.keys() - fold_of.keys(), key=lambda f: (-size[f], f)):
        start = family_fold(family, folds)
        lightest = min(range(folds), key=lambda k: (load[k], (k - start) % folds))
        fold_of[family] = lightest
        load[lightest] += size[family]
    return np.array([fold_of[family] for family in families], dtype=np.int64)


def regimes(table: StepTable) -> list[Regime]:
    """Return kind of device, mode, compiler and framework of each step."""

    def is_set(column: str) -> npt.NDArray[np.bool_]:
        return np.asarray(table.settings[:, SETTING_COLUMNS.index(column)] > 0)

    words = (
        np.where(is_set("cpu"), "cpu", "gpu"),
        np.where(is_set("training"), "training", "inference"),
        np.where(table.fused, "fused", "eager"),
        np.select(
            [is_set("tensorflow"), is_set("another_framework")],
            [Framework.TENSORFLOW.value, _ANOTHER],
            Framework.PYTORCH.value,
        ),
    )
    return list(zip(*(column.tolist() for column in words), strict=True))


def framework_word(framework: Framework) -> str:
    """Return the last word of the regimes of a framework, as :func:`regimes` says it."""
    return framework.value if framework.value in FRAMEWORK_WORDS else _ANOTHER


def groups(table: StepTable) -> list[Regime]:
    """Return the device and the regime of each step."""
    return [(d, *r) for d, r in zip(table.devices, regimes(table), strict=True)]


def fit_mix(
    of: Sequence[Regime],
    net: FloatArray,
    boost: FloatArray,
    logs: FloatArray,
    weights: FloatArray,
) -> dict[Regime, float]:
    """Return the weight of the network per regime that errs least on held-out families."""

    def best(chosen: npt.NDArray[np.bool_]) -> float:
        losses = [
            np.average(
                np.minimum(np.abs(a * net + (1 - a) * boost - logs)[chosen], _FAR_OFF),
                weights=weights[chosen],
            )
            for a in _MIX_STEPS
        ]
        return float(_MIX_STEPS[int(np.argmin(losses))])

    return _of_each_regime(of, best)


def spreads(of: Sequence[Regime], residuals: FloatArray) -> dict[Regime, float]:
    """Return the robust standard deviation of the residuals of each regime; of all under ``()``."""

    def spread(values: FloatArray) -> float:
        return max(float(np.median(np.abs(values))) / 0.6745, 0.01)

    return _of_each_regime(of, lambda chosen: spread(residuals[chosen]))


def _of_each_regime(
    of: Sequence[Regime], fitted: Callable[[npt.NDArray[np.bool_]], float]
) -> dict[Regime, float]:
    """Fit a value to all steps, and to those of each regime and larger one that has enough."""
    found: dict[Regime, float] = {(): fitted(np.ones(len(of), dtype=np.bool_))}
    for length in range(1, 1 + max((len(regime) for regime in of), default=0)):
        cut = [regime[:length] for regime in of]
        for regime in sorted(set(cut)):
            chosen = np.array([one == regime for one in cut])
            if chosen.sum() >= _FEWEST_ROWS:
                found[regime] = fitted(chosen)
    return found


def of_regime(values: Mapping[Regime, float], of: Sequence[Regime]) -> FloatArray:
    """Return the value of each regime; where it has none, that of the one around it."""
    around = {regime: _around(regime, values) for regime in set(of)}
    return np.array([values[around[regime]] for regime in of])


def _around(regime: Regime, values: Mapping[Regime, float]) -> Regime:
    while regime and regime not in values:
        regime = regime[:-1]
    return regime
