r"""The network under the joint predictor: one efficiency per row, added up to a step.

For row i of a step s on device d, with k(i) the kind of work of the row::

    t_s = (W_s^p + L_s^p)^(1/p)
    W_s = sum_i  c_i (r_i exp(e_i + u_{d,k(i)} + v_s S_{j(i)}) + x_i)
    L_s = sum_i  c_i l_i exp(o_{j(i)} + u_{d,launch} + w_s)
    e_i = MLP(row_i, neighbourhood_i, rates of d at i, settings of s)

The host calls ahead of what the device works on, so that the longer of both makes the step, and
both where they are about equal: ``p`` is 3.
The norm is homogeneous, so that a step is still the sum of its rows, each times the derivative of
the step to it, ``(W_s / t_s)^(p - 1)`` and ``(L_s / t_s)^(p - 1)``: what a row is answered to take.

``c_i`` counts equal nodes, ``r_i`` is the roofline time of the row and ``l_i`` the calls it needs
(a part of one inside a fused kernel). A host takes equally long to call for large and for small
work, in every precision and layout: ``o_j`` is a constant of the sort of the row, and ``w_s`` of
the settings that change what a host runs through (:data:`HOST_SETTINGS`). Free in every row, calls
would explain what the device does, and the other way round: only their sum is measured. ``x_i`` is
what a slow path costs (:mod:`perfmodel.features.steps.slow_paths`). ``u_d`` are the effects of a
device: learned for a device with records, regressed on the facts of the device for all others;
records of operators alone teach those of contraction and traffic, not that of launches. ``v_s`` are
the settings with some of their products, and S what they do to rows of the sort j. The
neighbourhood enters as shares of what a node reads and of who reads it, one hop of message
passing with fixed weights; whole-step times train row efficiencies through the sum.

Here it answers, with matrix products alone; :mod:`.node_learning` has it learn. Each step is
multiplied by itself: a product of more rows is rounded otherwise, and an answer must not depend on
what else was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.row_sorts import ROW_SORTS
from perfmodel.features.steps.step_table import DEVICE_FACTS, ROW_COLUMNS, SETTING_COLUMNS
from perfmodel.predictors.network_weights import Weights, check_shapes
from perfmodel.predictors.step_models.node_entries import (
    EFFECTS,
    LAUNCH,
    PRODUCTS,
    RATE_COLUMNS,
    Alike,
    Entries,
    Float32Array,
)

#: The unit of calls, seconds.
LAUNCH_S = 1e-6
ALONE = SETTING_COLUMNS.index("alone")
CPU = SETTING_COLUMNS.index("cpu")
#: What changes how long a host takes for a call; the device alone feels precisions and layouts.
HOST_SETTINGS = frozenset(SETTING_COLUMNS) - {"channels_last", "wide", "bfloat"}
#: Which settings act on which effects of a device: 1 where they do, shape (settings, EFFECTS).
EFFECTS_OF_SETTINGS = np.ones((len(SETTING_COLUMNS), EFFECTS), dtype=np.float32)
EFFECTS_OF_SETTINGS[:, LAUNCH] = [name in HOST_SETTINGS for name in SETTING_COLUMNS]
#: Limits of standardised inputs, and of the logarithms of work and launch over what is expected.
INPUT_LIMIT = 8.0
WORK_LIMITS, LAUNCH_LIMITS = (-4.0, 7.0), (-4.0, 6.0)
#: Entries that are multiplied at once: what they are made of stays in the cache of a core.
_AT_ONCE = 4_096
_TICK_S = 1e-9


@dataclass(frozen=True, kw_only=True)
class RowTimes:
    """Seconds of the entries of some steps, all equal nodes of a row together, shape (entries,).

    All of a step add up to it.
    """

    work_s: Float32Array
    launch_s: Float32Array


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeNetwork:
    """Efficiencies of rows and effects of devices.

    Parameters
    ----------
    mean, scale : ndarray, shape (len(ROW_COLUMNS),)
        Of the rows learned from.
    row, rate, setting, fact : ndarray, shape (columns, wide)
        Of the first layer, side by side.
    hidden, output : ndarray, shapes (wide, narrow) and (narrow, 1)
    calls : ndarray, shape (sorts,)
        Logarithm of what one call for a row of each sort takes, in :data:`LAUNCH_S`.
    effect : ndarray, shape (devices + 1, EFFECTS)
        Of each device with effects of its own; what the last one holds is not read.
    typical_effect, by_fact : ndarray, shapes (EFFECTS,) and (facts, EFFECTS)
        Effects of all other devices, see :mod:`.effect_facts`.
    by_setting, by_sort : ndarray, shapes (settings, EFFECTS) and (settings + products, sorts)
    overlap : float
        ``p`` of all devices but CPUs.
    """

    mean: Weights
    scale: Weights
    row: Weights
    row_bias: Weights
    rate: Weights
    setting: Weights
    fact: Weights
    hidden: Weights
    hidden_bias: Weights
    output: Weights
    output_bias: Weights
    calls: Weights
    effect: Weights
    typical_effect: Weights
    by_fact: Weights
    by_setting: Weights
    by_sort: Weights
    overlap: float

    @classmethod
    def of(
        cls,
        weights: Mapping[str, Weights],
        *,
        devices: int,
        wide: int,
        narrow: int,
        overlap: float,
    ) -> Self:
        """Make a network of weights by the names that they bear where they are kept.

        Raises
        ------
        ValueError
            Weights of another network.
        """
        check_shapes(weights, _shapes(devices, wide, narrow))
        own = {name: _turned(kept, weights[kept]) for name, kept in _KEPT.items()}
        return cls(**own, overlap=overlap)

    def to_weights(self) -> dict[str, Weights]:
        """Return what :meth:`of` takes."""
        return {kept: _turned(kept, getattr(self, name)) for name, kept in _KEPT.items()}

    @property
    def devices(self) -> int:
        """Devices with effects of their own; number ``devices`` stands for all others."""
        return len(self.effect) - 1

    def row_times(self, e: Entries, device: IntArray) -> RowTimes:
        """Return the time of every row of every step.

        Parameters
        ----------
        device : ndarray of int64, shape (steps,)
        """
        efficiency = self._answers(e)
        effects = self._effects(e, device)
        settings = np.concatenate([e.settings, e.products], axis=1)
        of_sort = _each(settings, self.by_sort).ravel()[e.of_sort]
        efficiency += effects.ravel()[e.of_kind] + of_sort
        work = e.roofline_s * np.exp(efficiency.clip(*WORK_LIMITS)) + e.slow_s
        calls = self.calls[e.of_sort % len(ROW_SORTS)] + effects[:, LAUNCH][e.step]
        launch = np.float32(LAUNCH_S) * np.exp(calls.clip(*LAUNCH_LIMITS)) * e.launches
        work, launch = work * e.count, launch * e.count
        of_work, of_launch = self._derivatives(e, work, launch)
        return RowTimes(work_s=work * of_work[e.step], launch_s=launch * of_launch[e.step])

    def overlap_of(self, e: Entries) -> FloatArray:
        """Return ``p`` of each step."""
        return np.where(e.settings[:, CPU] > 0, 1.0, self.overlap)

    def _derivatives(
        self, e: Entries, work: Float32Array, launch: Float32Array
    ) -> tuple[Float32Array, Float32Array]:
        """Return those of each step to its work and to its launches, shape (steps,) each."""
        both = np.stack([np.bincount(e.step, one, len(e.steps)) for one in (work, launch)])
        overlap = self.overlap_of(e)
        shares = both / np.maximum(both.max(axis=0), _TICK_S)
        shares /= np.maximum((shares**overlap).sum(axis=0), _TICK_S) ** (1 / overlap)
        of_work, of_launch = (shares ** (overlap - 1)).astype(np.float32)
        return of_work, of_launch

    def _answers(self, e: Entries) -> Float32Array:
        """Return what the layers say of each entry, shape (entries,)."""
        standard = ((e.rows - self.mean) / self.scale).clip(-INPUT_LIMIT, INPUT_LIMIT)
        whole = _each(e.settings, self.setting)
        whole += _each(e.facts, self.fact)
        answers = np.empty(len(e.row), dtype=np.float32)
        for alike in e.alike:
            of_row = standard[alike.rows] @ self.row + self.row_bias
            answers[alike.entries] = self._layers(e, alike, of_row, whole[alike.steps])
        return answers

    def _layers(
        self, e: Entries, alike: Alike, of_row: Float32Array, whole: Float32Array
    ) -> Float32Array:
        steps, rows = alike.shape
        rates = e.rates[alike.entries].reshape(steps, rows, RATE_COLUMNS)
        answers = np.empty((steps, rows, 1), dtype=np.float32)
        step = max(1, _AT_ONCE // max(1, rows))
        for begin in range(0, steps, step):
            some = slice(begin, begin + step)
            hidden = rates[some] @ self.rate
            hidden += of_row
            hidden += whole[some, None]
            np.maximum(hidden, 0.0, out=hidden)
            hidden = hidden @ self.hidden
            hidden += self.hidden_bias
            np.maximum(hidden, 0.0, out=hidden)
            answers[some] = hidden @ self.output
        answers += self.output_bias
        return answers.ravel()

    def _effects(self, e: Entries, device: IntArray) -> Float32Array:
        """Return the effects of device and settings, shape (steps, EFFECTS)."""
        unknown = (device >= self.devices)[:, None]
        typical = self.typical_effect + _each(e.facts, self.by_fact)
        own = np.where(unknown, typical, self.effect[device])
        # How fast the host of a device calls says nothing of an operator that is repeated.
        own[:, LAUNCH] *= 1.0 - e.settings[:, ALONE]
        own += _each(e.settings, self.by_setting * EFFECTS_OF_SETTINGS)
        return own


#: Under which name the weights of each field are kept; those of layers lie there as (out, in).
_KEPT = {
    **{name: f"{name}.weight" for name in ("row", "rate", "setting", "fact", "hidden", "output")},
    **{f"{name}_bias": f"{name}.bias" for name in ("row", "hidden", "output")},
    **{name: name for name in ("mean", "scale", "calls", "effect", "typical_effect")},
    **{name: name for name in ("by_fact", "by_setting", "by_sort")},
}


def _shapes(devices: int, wide: int, narrow: int) -> dict[str, tuple[int, ...]]:
    columns, settings, facts = len(ROW_COLUMNS), len(SETTING_COLUMNS), len(DEVICE_FACTS)
    return {
        "mean": (columns,),
        "scale": (columns,),
        "row.weight": (wide, columns),
        "row.bias": (wide,),
        "rate.weight": (wide, RATE_COLUMNS),
        "setting.weight": (wide, settings),
        "fact.weight": (wide, facts),
        "hidden.weight": (narrow, wide),
        "hidden.bias": (narrow,),
        "output.weight": (1, narrow),
        "output.bias": (1,),
        "calls": (len(ROW_SORTS),),
        "effect": (devices + 1, EFFECTS),
        "typical_effect": (EFFECTS,),
        "by_fact": (facts, EFFECTS),
        "by_setting": (settings, EFFECTS),
        "by_sort": (settings + len(PRODUCTS), len(ROW_SORTS)),
    }


def _turned(kept: str, weights: Weights) -> Weights:
    return np.ascontiguousarray(weights.T) if kept.endswith(".weight") else weights


def _each(rows: Float32Array, weights: Weights) -> Float32Array:
    """Return the product of each row by itself."""
    return np.asarray((rows[:, None, :] @ weights)[:, 0])
