"""Latency of kernel calls on devices that need not have been measured.

``latency = law x exp(trees(x))``: the law (:mod:`perfmodel.predictors.kernels.kernel_law`) knows
the device, and is fitted first; trees learn the logarithm of what is left, per group of operators.
Two boosters answer, and the mean of their logarithms counts: one knows the device only through
what a call means to it (waves, ridge point, cache, the parts of the law), the other its facts too
(rates per cycle, power, year). The first cannot mistake a device for its neighbour, the second can
follow a trend over generations. No answer lies below what the peaks allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, final

import numpy as np

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import SCHEMA_VERSION
from perfmodel.predictors.boosting import Booster, BoosterSettings, read_packed, slim, write_packed
from perfmodel.predictors.kernels.kernel_base import (
    GROUPS,
    MEMBERS,
    KernelBase,
    PreparedCalls,
    kernel_group,
    member_columns,
)
from perfmodel.predictors.kernels.kernel_law import FEW_CALLS, LawParts
from perfmodel.predictors.kernels.kernel_offsets import GroupOffset, group_offsets
from perfmodel.predictors.kernels.kernel_seen import KernelsSeen
from perfmodel.predictors.kernels.kernel_times import KernelSpread
from perfmodel.predictors.predictor_checks import finite, read_json, unfitted, write_json

KERNEL_SETTINGS = BoosterSettings(
    rounds=250, depth=8, learning_rate=0.08, min_child_weight=8.0, row_share=0.8, column_share=0.4
)
_STATE = "kernels.state.json"
#: Where a group was never measured: half the rate of the roofline.
_UNSEEN_FACTOR = float(np.log(2.0))


@final
class KernelPredictor:
    """Predicts the time of one kernel call."""

    name = "kernels"

    def __init__(self, settings: BoosterSettings = KERNEL_SETTINGS, seed: int = 0) -> None:
        self.settings = replace(settings, seed=seed)
        self.boosters_: dict[str, dict[str, Booster]] = {}
        self.log_limits_: dict[str, tuple[float, float]] = {}
        self.base_ = KernelBase()
        self.offsets_: Mapping[str, Mapping[str, GroupOffset]] = MappingProxyType({})
        self.seen_ = KernelsSeen()
        #: Set by whoever has judged the predictor on what it has not learned from.
        self.spread_ = KernelSpread()

    def fit(self, calls: KernelCalls, time_s: FloatArray) -> Self:
        """Learn from measured calls; every device has the same weight within a group.

        Parameters
        ----------
        time_s : ndarray, shape (calls,)
            Measured times, > 0.

        Raises
        ------
        TrainingError
            No calls, or a time that is not finite and positive.
        """
        _check_times(calls, time_s)
        ready = PreparedCalls.of(calls)
        self.seen_ = KernelsSeen.of(calls, ready.group)
        self.base_ = KernelBase().fit(ready, time_s, self.settings.seed)
        parts = self.base_.parts(ready)
        target = np.log(time_s / parts.time_s)
        self.boosters_, self.log_limits_ = {}, {}
        for group, rows in ready.by_group():
            own = target[rows]
            self.log_limits_[group] = (float(own.min()) - 0.5, float(own.max()) + 0.5)
            weight = device_weights(calls.take(rows))
            self.boosters_[group] = {}
            for member in MEMBERS:
                names = member_columns(member)
                matrix = ready.matrix(names, rows, parts)
                grown = Booster.train(matrix, own, weight, names, self.settings)
                self.boosters_[group][member] = slim(grown)
        return self

    def predict(self, calls: KernelCalls) -> FloatArray:
        """Return the time of each call.

        Returns
        -------
        ndarray, shape (calls,)
            Seconds, finite, > 0, never below what the best kernels reach of the roofline.

        Raises
        ------
        TrainingError
            Before :meth:`fit`.
        InvalidInputError
            An operator, type or extent that is not understood.
        """
        return self.parts(calls)[0]

    def parts(self, calls: KernelCalls, *, trees: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return the time of each call, and how much of it is a launch.

        Parameters
        ----------
        trees : bool
            Without them the law answers alone.

        Raises
        ------
        TrainingError
            Before :meth:`fit`.
        """
        if not self.boosters_:
            raise unfitted(self.name)
        if not len(calls):
            return np.zeros(0), np.zeros(0)
        ready = PreparedCalls.of(calls)
        parts = self.base_.parts(ready)
        share = parts.launch_s / parts.time_s
        time_s = parts.time_s * (np.exp(self._log_factor(calls, ready, parts)) if trees else 1.0)
        time_s = np.maximum(time_s, self.base_.least_s(ready))
        return time_s, time_s * share

    def _log_factor(self, calls: KernelCalls, ready: PreparedCalls, parts: LawParts) -> FloatArray:
        factor = np.full(len(calls), _UNSEEN_FACTOR)
        for group, rows in ready.by_group():
            if group in self.boosters_:
                answers = [
                    booster.predict(ready.matrix(member_columns(member), rows, parts))
                    for member, booster in self.boosters_[group].items()
                ]
                factor[rows] = np.clip(np.mean(answers, axis=0), *self.log_limits_[group])
        return factor + self._offset(calls, ready, parts.launch_s / parts.time_s)

    def adapt(self, calls: KernelCalls, time_s: FloatArray) -> KernelPredictor:
        """Return a predictor that has taken in a few measured calls of some devices.

        The trees stay; each device gets a log offset per group of operators. Offsets that were
        learned before are replaced for these devices.

        Parameters
        ----------
        time_s : ndarray, shape (calls,)

        Raises
        ------
        TrainingError
            Before :meth:`fit`, or a time that is not finite and positive.
        """
        _check_times(calls, time_s)
        adapted = KernelPredictor(self.settings, self.settings.seed)
        adapted.boosters_, adapted.log_limits_ = self.boosters_, self.log_limits_
        adapted.base_, adapted.seen_, adapted.spread_ = self.base_, self.seen_, self.spread_
        residual = np.log(time_s / adapted.predict(calls))
        group, devices = kernel_group(calls), calls.device_names
        share = self.launch_share(calls)
        learned = {}
        for device in np.unique(devices).tolist():
            own = devices == device
            learned[device] = group_offsets(group[own].tolist(), residual[own], share[own], GROUPS)
        adapted.offsets_ = MappingProxyType({**self.offsets_, **learned})
        return adapted

    def launch_share(self, calls: KernelCalls) -> FloatArray:
        """Return the part of each call that does not grow: the launch over the law."""
        parts = self.base_.parts(PreparedCalls.of(calls))
        return parts.launch_s / parts.time_s

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the boosters as packed JSON, and what else was learned.

        Returns
        -------
        mapping
            JSON-able facts for the manifest.
        """
        if not self.boosters_:
            raise unfitted(self.name)
        folder.mkdir(parents=True, exist_ok=True)
        for group, members in self.boosters_.items():
            for member, booster in members.items():
                write_packed(folder, f"{group}.{member}", booster)
        state = {
            "columns": _columns(),
            "log_limits": {group: list(limits) for group, limits in self.log_limits_.items()},
            "base": self.base_.to_dict(),
            "seen": self.seen_.to_dict(),
            "spread": self.spread_.to_dict(),
            "offsets": {
                device: {group: [o.level, o.launch] for group, o in offsets.items()}
                for device, offsets in self.offsets_.items()
            },
        }
        write_json(folder / _STATE, state)
        return {
            "schema_version": SCHEMA_VERSION,
            "groups": sorted(self.boosters_),
            "columns": state["columns"],
            "trees": self.settings.rounds,
        }

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote and check the golden rows.

        Raises
        ------
        DamagedArtifactError
            Content that cannot be what was written.
        """
        path = folder / _STATE
        state = read_json(path)
        predictor = cls()
        try:
            limits = {str(g): (low, high) for g, (low, high) in state["log_limits"].items()}
            predictor.log_limits_ = {
                group: (finite(low, path), finite(high, path))
                for group, (low, high) in limits.items()
            }
            if state["columns"] != _columns():
                raise ValueError("it was trained on other columns")
            predictor.base_ = KernelBase.from_dict(state["base"], path)
            predictor.seen_ = KernelsSeen.from_dict(state["seen"])
            predictor.spread_ = KernelSpread.from_dict(state["spread"], path)
            predictor.offsets_ = MappingProxyType(
                {str(d): _stored_offsets(o, path) for d, o in state["offsets"].items()}
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(
                f"{path} is not what was written: {error!r}. Train the model again."
            ) from error
        if not predictor.log_limits_ or not set(predictor.log_limits_) <= set(GROUPS):
            raise DamagedArtifactError(f"{path} names no known group of operators.")
        predictor.boosters_ = {
            group: {
                m: read_packed(folder, f"{group}.{m}", columns) for m, columns in _columns().items()
            }
            for group in predictor.log_limits_
        }
        return predictor

    def _offset(
        self, calls: KernelCalls, ready: PreparedCalls, launch_share: FloatArray
    ) -> FloatArray:
        offset = np.zeros(len(calls))
        devices = calls.device_names
        for device, by_group in self.offsets_.items():
            for group, found in by_group.items():
                rows = (devices == device) & (ready.group == group)
                offset[rows] = found.at(launch_share[rows])
        return offset


def _check_times(calls: KernelCalls, time_s: FloatArray) -> None:
    if not len(calls) or len(calls) != len(time_s):
        raise TrainingError(f"{len(calls)} kernel calls with {len(time_s)} times; give as many.")
    if not np.all(np.isfinite(time_s) & (time_s > 0)):
        raise TrainingError("A kernel time is not finite and positive; drop such records.")


def _columns() -> dict[str, list[str]]:
    """Return what each member sees."""
    return {member: list(member_columns(member)) for member in MEMBERS}


def device_weights(calls: KernelCalls) -> FloatArray:
    """Return weights under which devices of many calls count the same, 1 on average.

    A device of ``n`` calls counts ``n / (n + 1000)``: a few dozen calls of one table err together,
    and do not speak for a device as thousands do.
    """
    place = np.unique(calls.device, return_inverse=True)[1]
    weight = 1.0 / (np.bincount(place)[place] + FEW_CALLS)
    return np.asarray(weight / weight.mean(), dtype=np.float64)


def _stored_offsets(table: Mapping[str, Any], path: Path) -> dict[str, GroupOffset]:
    return {
        str(group): GroupOffset(level=finite(level, path), launch=finite(launch, path))
        for group, (level, launch) in table.items()
    }
