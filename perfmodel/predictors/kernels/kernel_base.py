"""What a kernel call takes before anything is learned about its shape.

``base = launch + roofline``: a launch per group of operators and framework, and the roofline, both
by the laws of :mod:`perfmodel.predictors.kernels.kernel_law`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import (
    DEVICE_COLUMNS,
    KernelRoofline,
    column_matrix,
    framework,
    kernel_columns,
    kernel_roofline,
)
from perfmodel.predictors.kernels.kernel_law import CLOCK_HZ, DeviceLaw, fit_law
from perfmodel.predictors.predictor_checks import finite

#: Groups of operators with laws and boosters of their own.
GROUPS = ("product", "product_fp32", "prefill", "decode", "moe", "pointwise")
#: Which columns a member of the predictor sees: without and with the facts of the device.
MEMBERS = ("relative", "facts")

_PRODUCTS = ("gemm", "bmm", "conv2d")
_GROUP_OF = {"attention_prefill": "prefill", "attention_decode": "decode", "moe": "moe"}
#: Quantile of the times of a group that stands for its launch.
_LAUNCH_QUANTILE = 0.02
#: Launch of a group that was never measured.
_UNSEEN_LAUNCH_S = 5e-6


def kernel_group(calls: KernelCalls) -> StrArray:
    """Return the group of operators of each call, one of :data:`GROUPS`."""
    group = np.full(len(calls), "pointwise", dtype="<U12")
    for op, name in _GROUP_OF.items():
        group[calls.op == op] = name
    product = np.isin(calls.op, _PRODUCTS)
    group[product] = "product"
    group[product & (calls.dtype == "fp32")] = "product_fp32"
    return group


def member_columns(names: list[str], member: str) -> list[str]:
    """Return the names of the columns that a member sees."""
    hidden = DEVICE_COLUMNS if member == "relative" else ()
    return [name for name in names if name not in hidden]


@dataclass(frozen=True, kw_only=True)
class PreparedCalls:
    """Calls with everything that is computed of them once."""

    roofline: KernelRoofline
    columns: Mapping[str, FloatArray]
    group: StrArray
    framework: StrArray
    device: IntArray

    @classmethod
    def of(cls, calls: KernelCalls) -> PreparedCalls:
        """Return what is computed of some calls."""
        roofline = kernel_roofline(calls)
        return cls(
            roofline=roofline,
            columns=kernel_columns(calls, roofline),
            group=kernel_group(calls),
            framework=framework(calls),
            device=calls.device,
        )

    def by_group(self) -> list[tuple[str, IntArray]]:
        """Return the groups that occur with the positions of their calls."""
        names = [str(name) for name in np.unique(self.group)]
        return [(name, np.flatnonzero(self.group == name)) for name in names]

    def matrix(self, member: str, rows: IntArray) -> npt.NDArray[np.float32]:
        """Return the columns that a member sees, of some calls."""
        return column_matrix({n: self.columns[n][rows] for n in self.names(member)})

    def names(self, member: str) -> list[str]:
        """Return the names of the columns that a member sees."""
        return member_columns(list(self.columns), member)


class KernelBase:
    """Launches and laws, learned per group of operators."""

    def __init__(self) -> None:
        self.launches_s_: dict[str, float] = {}
        self.laws_: dict[str, DeviceLaw] = {}

    def fit(self, ready: PreparedCalls, time_s: FloatArray) -> KernelBase:
        """Learn the laws, then the launches at the clock that they are stated at."""
        self.launches_s_ = _launches(ready, time_s)
        launch_s = self._stated(ready)
        clock = np.zeros(len(time_s))
        for group, rows in ready.by_group():
            own = ready.roofline.take(rows)
            law = fit_law(own, ready.device[rows], time_s[rows], launch_s[rows])
            self.laws_[group], clock[rows] = law, law.clock
        at_one_clock = time_s * (ready.roofline.clock_hz / CLOCK_HZ) ** clock
        self.launches_s_ = _launches(ready, at_one_clock)
        return self

    def parts_s(self, ready: PreparedCalls) -> tuple[FloatArray, FloatArray]:
        """Return the launch and the roofline of each call."""
        launch_s, longer_s = self._stated(ready), np.zeros(len(ready.group))
        for group, rows in ready.by_group():
            law, own = self.laws_.get(group, DeviceLaw()), ready.roofline.take(rows)
            launch_s[rows] = law.launch_s(own, launch_s[rows])
            longer_s[rows] = law.time_s(own)
        return launch_s, longer_s

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as JSON values."""
        laws = {group: asdict(law) for group, law in self.laws_.items()}
        return {"launches_s": self.launches_s_, "laws": laws}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], path: Path) -> KernelBase:
        """Read what :meth:`to_dict` gave; numbers that are none are refused with the path."""
        base = cls()
        base.launches_s_ = _finite_values(stored["launches_s"], path)
        base.laws_ = {
            str(group): DeviceLaw(**_finite_values(law, path))
            for group, law in stored["laws"].items()
        }
        return base

    def _stated(self, ready: PreparedCalls) -> FloatArray:
        words = np.char.add(np.char.add(ready.group, " "), ready.framework)
        keys, place = np.unique(words, return_inverse=True)
        whole = {key: self.launches_s_.get(key.split(" ")[0], _UNSEEN_LAUNCH_S) for key in keys}
        found = [self.launches_s_.get(key, whole[key]) for key in keys]
        return np.array(found, dtype=np.float64)[place]


def _launches(ready: PreparedCalls, time_s: FloatArray) -> dict[str, float]:
    """Return the launch per group, and per group and framework."""
    found = {}
    for group, rows in ready.by_group():
        found[group] = float(np.quantile(time_s[rows], _LAUNCH_QUANTILE))
        for word in np.unique(ready.framework[rows]).tolist():
            own = time_s[rows[ready.framework[rows] == word]]
            found[f"{group} {word}"] = float(np.quantile(own, _LAUNCH_QUANTILE))
    return found


def _finite_values(table: Mapping[str, Any], path: Path) -> dict[str, float]:
    return {str(key): finite(value, path, low=0.0) for key, value in table.items()}
