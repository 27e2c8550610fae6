"""Latency of kernel calls on devices that need not have been measured.

``latency = (overhead + roofline) x exp(trees(x))`` with ``roofline = max(FLOPs / peak, bytes /
rate)``, where the rate is that of the cache as far as repeated calls find their operands there. The
roofline falls short of the peaks by the laws of :mod:`perfmodel.predictors.kernel_law`. The
trees learn ``log(latency / (overhead + roofline))``, per group of operators. Two boosters answer,
and the mean of their logarithms counts: one knows the device only through what a call means to it
(waves, ridge point, cache), the other its facts too (rates per cycle, power, year). The first
cannot mistake a device for its neighbour, the second can follow a trend over generations. No answer
lies below what the peaks allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.kernel_calls import FloatArray, IntArray, KernelCalls, WordArray
from perfmodel.features.kernels import (
    DEVICE_COLUMNS,
    SCHEMA_VERSION,
    KernelRoofline,
    column_matrix,
    framework,
    kernel_columns,
    kernel_roofline,
)
from perfmodel.predictors.boosting import Booster, BoosterSettings
from perfmodel.predictors.checks import finite, read_json, unfitted, write_json
from perfmodel.predictors.kernel_law import CLOCK_HZ, DeviceLaw, fit_law
from perfmodel.predictors.kernel_offsets import GroupOffset, OffsetPrior, group_offsets
from perfmodel.predictors.packed_booster import read_packed, slim, write_packed

KERNEL_SETTINGS = BoosterSettings(
    rounds=250, depth=8, learning_rate=0.08, min_child_weight=8.0, row_share=0.8, column_share=0.4
)
#: Members of the mean: without and with the facts of the device.
MEMBERS = ("relative", "facts")
#: Groups of operators with boosters of their own.
GROUPS = ("product", "product_fp32", "prefill", "decode", "moe", "pointwise")

_PRODUCTS = ("gemm", "bmm", "conv2d")
_GROUP_OF = {"attention_prefill": "prefill", "attention_decode": "decode", "moe": "moe"}
#: Quantile of the times of a group that stands for its fixed part.
_OVERHEAD_QUANTILE = 0.02
_STATE = "kernels.state.json"
#: Where a group was never measured: half the roofline's rate, and a launch.
_UNSEEN_FACTOR = float(np.log(2.0))
_UNSEEN_OVERHEAD_S = 5e-6


def kernel_group(calls: KernelCalls) -> WordArray:
    """Return the group of operators of each call, one of :data:`GROUPS`."""
    group = np.full(len(calls), "pointwise", dtype="<U12")
    for op, name in _GROUP_OF.items():
        group[calls.op == op] = name
    product = np.isin(calls.op, _PRODUCTS)
    group[product] = "product"
    group[product & (calls.dtype == "fp32")] = "product_fp32"
    return group


@dataclass(frozen=True)
class _Prepared:
    """Calls with everything that is computed of them once."""

    roofline: KernelRoofline
    columns: Mapping[str, FloatArray]
    group: WordArray
    framework: WordArray

    @property
    def group_names(self) -> list[str]:
        """Groups of operators that occur."""
        return [str(name) for name in np.unique(self.group)]

    def matrix(self, member: str, rows: IntArray) -> npt.NDArray[np.float32]:
        """Return the columns that a member sees, of some calls."""
        return column_matrix({n: self.columns[n][rows] for n in self.names(member)})

    def names(self, member: str) -> list[str]:
        """Return the names of the columns that a member sees."""
        hidden = DEVICE_COLUMNS if member == "relative" else ()
        return [name for name in self.columns if name not in hidden]


def _prepare(calls: KernelCalls) -> _Prepared:
    roofline = kernel_roofline(calls)
    return _Prepared(
        roofline=roofline,
        columns=kernel_columns(calls, roofline),
        group=kernel_group(calls),
        framework=framework(calls),
    )


@final
class KernelPredictor:
    """Predicts the time of one kernel call.

    Parameters
    ----------
    settings : BoosterSettings
    seed : int
    """

    name = "kernels"

    def __init__(self, settings: BoosterSettings = KERNEL_SETTINGS, seed: int = 0) -> None:
        self.settings = replace(settings, seed=seed)
        self.boosters_: dict[str, dict[str, Booster]] = {}
        self.log_limits_: dict[str, tuple[float, float]] = {}
        self.overheads_s_: dict[str, float] = {}
        self.laws_: dict[str, DeviceLaw] = {}
        self.offsets_: Mapping[str, Mapping[str, GroupOffset]] = MappingProxyType({})

    def fit(self, calls: KernelCalls, time_s: FloatArray) -> Self:
        """Learn from measured calls; every architecture has the same weight within a group.

        Parameters
        ----------
        calls : KernelCalls
        time_s : ndarray, shape (calls,)
            Measured times, > 0.

        Returns
        -------
        KernelPredictor

        Raises
        ------
        TrainingError
            No calls, or a time that is not finite and positive.
        """
        _check_times(calls, time_s)
        ready = _prepare(calls)
        self.overheads_s_ = _overheads(ready, time_s)
        self.laws_ = self._fit_laws(ready, calls.device, time_s)
        clock = np.array([self.laws_[group].clock for group in ready.group.tolist()])
        # Overheads are stated at one clock.
        self.overheads_s_ = _overheads(
            ready, time_s * (ready.roofline.clock_hz / CLOCK_HZ) ** clock
        )
        target = np.log(time_s / self._base(ready))
        self.boosters_, self.log_limits_ = {}, {}
        for group in np.unique(ready.group).tolist():
            rows = np.flatnonzero(ready.group == group)
            low, high = float(target[rows].min()), float(target[rows].max())
            self.log_limits_[group] = (low - 0.5, high + 0.5)
            weight = architecture_weights(calls.take(rows))
            self.boosters_[group] = {
                member: slim(
                    Booster.train(
                        ready.matrix(member, rows),
                        target[rows],
                        weight,
                        ready.names(member),
                        self.settings,
                    )
                )
                for member in MEMBERS
            }
        return self

    def predict(self, calls: KernelCalls) -> FloatArray:
        """Return the time of each call.

        Parameters
        ----------
        calls : KernelCalls

        Returns
        -------
        ndarray, shape (calls,)
            Seconds, finite, > 0, never below the floor of the roofline.

        Raises
        ------
        TrainingError
            Before :meth:`fit`.
        InvalidInputError
            An operator, type or extent that is not understood.
        """
        if not self.boosters_:
            raise unfitted(self.name)
        if not len(calls):
            return np.zeros(0)
        ready = _prepare(calls)
        factor = np.full(len(calls), _UNSEEN_FACTOR)
        for group in np.unique(ready.group).tolist():
            if group in self.boosters_:
                rows = np.flatnonzero(ready.group == group)
                answers = [
                    booster.predict(ready.matrix(member, rows))
                    for member, booster in self.boosters_[group].items()
                ]
                factor[rows] = np.clip(np.mean(answers, axis=0), *self.log_limits_[group])
        times = self._base(ready) * np.exp(factor + self._offset(calls, ready))
        return np.maximum(times, ready.roofline.floor_s)

    def adapt(
        self, calls: KernelCalls, time_s: FloatArray, prior: OffsetPrior | None = None
    ) -> KernelPredictor:
        """Return a predictor that has taken in a few measured calls of some devices.

        The trees stay; each device gets a log offset per group of operators. Offsets that were
        learned before are replaced for these devices.

        Parameters
        ----------
        calls : KernelCalls
        time_s : ndarray, shape (calls,)
        prior : OffsetPrior or None

        Returns
        -------
        KernelPredictor

        Raises
        ------
        TrainingError
            Before :meth:`fit`, or a time that is not finite and positive.
        """
        _check_times(calls, time_s)
        adapted = KernelPredictor(self.settings, self.settings.seed)
        adapted.boosters_, adapted.log_limits_ = self.boosters_, self.log_limits_
        adapted.overheads_s_, adapted.laws_ = self.overheads_s_, self.laws_
        residual = np.log(time_s / adapted.predict(calls))
        group, devices = kernel_group(calls), calls.device_names
        share = self.launch_share(calls)
        learned = {}
        for device in np.unique(devices).tolist():
            own = devices == device
            learned[device] = group_offsets(
                group[own].tolist(), residual[own], share[own], GROUPS, prior
            )
        adapted.offsets_ = MappingProxyType({**self.offsets_, **learned})
        return adapted

    def launch_share(self, calls: KernelCalls) -> FloatArray:
        """Return the part of each call that does not grow: overhead over overhead + roofline."""
        ready = _prepare(calls)
        return self._launch_share(ready)

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
        any_group = next(iter(self.boosters_.values()))
        state = {
            "columns": {member: list(booster.columns) for member, booster in any_group.items()},
            "log_limits": {group: list(limits) for group, limits in self.log_limits_.items()},
            "overheads_s": self.overheads_s_,
            "laws": {group: asdict(law) for group, law in self.laws_.items()},
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
            predictor.overheads_s_ = _finite_values(state["overheads_s"], path)
            predictor.laws_ = {
                str(group): DeviceLaw(**_finite_values(law, path))
                for group, law in state["laws"].items()
            }
            predictor.offsets_ = MappingProxyType(
                {str(d): _stored_offsets(o, path) for d, o in state["offsets"].items()}
            )
            columns = {m: [str(name) for name in state["columns"][m]] for m in MEMBERS}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(
                f"{path} is not what was written: {error!r}. Train the model again."
            ) from error
        if not predictor.log_limits_ or not set(predictor.log_limits_) <= set(GROUPS):
            raise DamagedArtifactError(f"{path} names no known group of operators.")
        predictor.boosters_ = {
            group: {m: read_packed(folder, f"{group}.{m}", columns[m]) for m in MEMBERS}
            for group in predictor.log_limits_
        }
        return predictor

    def _base(self, ready: _Prepared) -> FloatArray:
        """``overhead + roofline`` of each call; what the trees multiply."""
        launch_s, longer_s = self._by_law(ready)
        return launch_s + longer_s

    def _overhead(self, ready: _Prepared) -> FloatArray:
        words = np.char.add(np.char.add(ready.group, " "), ready.framework)
        keys, place = np.unique(words, return_inverse=True)
        whole = {key: self.overheads_s_.get(key.split(" ")[0], _UNSEEN_OVERHEAD_S) for key in keys}
        return np.array([self.overheads_s_.get(key, whole[key]) for key in keys])[place]

    def _by_law(self, ready: _Prepared) -> tuple[FloatArray, FloatArray]:
        """Return the part that does not grow and the roofline of each call."""
        launch_s, longer_s = self._overhead(ready), np.zeros(len(ready.group))
        for group in ready.group_names:
            rows = np.flatnonzero(ready.group == group)
            law, own = self.laws_.get(group, DeviceLaw()), ready.roofline.take(rows)
            launch_s[rows] = law.launch_s(own, launch_s[rows])
            longer_s[rows] = law.time_s(own)
        return launch_s, longer_s

    def _fit_laws(
        self, ready: _Prepared, device: IntArray, time_s: FloatArray
    ) -> dict[str, DeviceLaw]:
        overhead_s = self._overhead(ready)
        found = {}
        for group in ready.group_names:
            rows = np.flatnonzero(ready.group == group)
            found[group] = fit_law(
                ready.roofline.take(rows), device[rows], time_s[rows], overhead_s[rows]
            )
        return found

    def _launch_share(self, ready: _Prepared) -> FloatArray:
        launch_s, longer_s = self._by_law(ready)
        return launch_s / (launch_s + longer_s)

    def _offset(self, calls: KernelCalls, ready: _Prepared) -> FloatArray:
        offset = np.zeros(len(calls))
        if not self.offsets_:
            return offset
        share, devices = self._launch_share(ready), calls.device_names
        for device, by_group in self.offsets_.items():
            for group, found in by_group.items():
                rows = (devices == device) & (ready.group == group)
                offset[rows] = found.at(share[rows])
        return offset


def _check_times(calls: KernelCalls, time_s: FloatArray) -> None:
    if not len(calls) or len(calls) != len(time_s):
        raise TrainingError(f"{len(calls)} kernel calls with {len(time_s)} times; give as many.")
    if not np.all(np.isfinite(time_s) & (time_s > 0)):
        raise TrainingError("A kernel time is not finite and positive; drop such records.")


def architecture_weights(calls: KernelCalls) -> FloatArray:
    """Return weights under which every architecture counts the same."""
    words = np.array([spec.architecture for spec in calls.devices], dtype=np.str_)
    place = np.unique(words, return_inverse=True)[1][calls.device]
    return np.asarray(1.0 / np.bincount(place)[place], dtype=np.float64)


def _overheads(ready: _Prepared, time_s: FloatArray) -> dict[str, float]:
    """Return the fixed part per group, and per group and framework."""
    found = {}
    for group in np.unique(ready.group).tolist():
        rows = ready.group == group
        found[group] = float(np.quantile(time_s[rows], _OVERHEAD_QUANTILE))
        for word in np.unique(ready.framework[rows]).tolist():
            own = time_s[rows & (ready.framework == word)]
            found[f"{group} {word}"] = float(np.quantile(own, _OVERHEAD_QUANTILE))
    return found


def _finite_values(table: Mapping[str, Any], path: Path) -> dict[str, float]:
    return {str(key): finite(value, path) for key, value in table.items()}


def _stored_offsets(table: Mapping[str, Any], path: Path) -> dict[str, GroupOffset]:
    return {
        str(group): GroupOffset(level=finite(level, path), launch=finite(launch, path))
        for group, (level, launch) in table.items()
    }
