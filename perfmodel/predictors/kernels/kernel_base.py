"""What a kernel call takes before anything is learned about its shape: a launch, and the law.

Launches are stated per group of operators and framework, laws per product operator and for each
group of others (:mod:`perfmodel.predictors.kernels.kernel_law`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import BoolArray, FloatArray, IntArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import (
    DEVICE_COLUMNS,
    KernelRoofline,
    column_matrix,
    column_names,
    framework,
    kernel_columns,
    kernel_roofline,
)
from perfmodel.predictors.kernels.kernel_law import LawConstants, LawParts, law_parts
from perfmodel.predictors.predictor_checks import finite

#: Groups of operators with boosters of their own.
GROUPS = ("product", "product_fp32", "prefill", "decode", "moe", "pointwise")
#: Which columns a member of the predictor sees: without and with the facts of the device.
MEMBERS = ("relative", "facts")

_PRODUCTS = ("gemm", "bmm", "conv2d")
_GROUP_OF = {"attention_prefill": "prefill", "attention_decode": "decode", "moe": "moe"}
#: Quantile of the times of a group that stands for its launch.
_LAUNCH_QUANTILE = 0.02
#: Launch of a group that was never measured.
_UNSEEN_LAUNCH_S = 5e-6
#: Quantile of the shares of the floor on one device that counts as what kernels reach there; and
#: what is reached at least, where only short calls were seen.
_BEST = 0.99
_LEAST_REACHED = 0.5
#: What is expected of matrix units: more multiply-adds a watt, hungrier for operands.
_MATRIX_UNITS = LawConstants(power=1.5, operand=14.0)
#: The roofline alone. Of the kernels of experts one call has many, further apart than devices are:
#: a law that is fitted to them follows whichever implementations a device happens to have.
_PLAIN = LawConstants(power=0.0, reached=1.0, latency=0.0, sharpness=20.0)
_NOT_FITTED = ("moe",)
#: Devices that a law of one operator alone takes.
_LEAST_DEVICES = 3
#: What the law adds to the columns of a call.
LAW_COLUMNS = (
    "law_compute_over_memory", "law_launch_share", "law_depth_parts", "law_tile_rows",
    "law_tile_columns", "law_compute_over_roofline", "law_memory_over_roofline",
)  # fmt: skip


def kernel_group(calls: KernelCalls) -> StrArray:
    """Return the group of operators of each call, one of :data:`GROUPS`."""
    group = np.full(len(calls), "pointwise", dtype="<U12")
    for op, name in _GROUP_OF.items():
        group[calls.op == op] = name
    product = np.isin(calls.op, _PRODUCTS)
    group[product] = "product"
    group[product & (calls.dtype == "fp32")] = "product_fp32"
    return group


def member_columns(member: str) -> list[str]:
    """Return the names of the columns that a member sees."""
    hidden = DEVICE_COLUMNS if member == "relative" else ()
    return [name for name in (*column_names(), *LAW_COLUMNS) if name not in hidden]


@dataclass(frozen=True, kw_only=True)
class PreparedCalls:
    """Calls with everything that is computed of them once.

    Parameters
    ----------
    kind : ndarray of str
        ``"<group> <operator>"``.
    """

    roofline: KernelRoofline
    columns: Mapping[str, FloatArray]
    group: StrArray
    kind: StrArray
    framework: StrArray
    device: IntArray
    device_name: StrArray
    maker: StrArray

    @classmethod
    def of(cls, calls: KernelCalls) -> PreparedCalls:
        """Return what is computed of some calls."""
        roofline, group = kernel_roofline(calls), kernel_group(calls)
        return cls(
            roofline=roofline,
            columns=kernel_columns(calls, roofline),
            group=group,
            kind=np.char.add(np.char.add(group, " "), calls.op),
            framework=framework(calls),
            device=calls.device,
            device_name=calls.device_names,
            maker=calls.maker_names,
        )

    def by_group(self) -> list[tuple[str, IntArray]]:
        """Return the groups that occur with the positions of their calls."""
        return _places(self.group)

    def matrix(
        self, columns: Sequence[str], rows: IntArray, parts: LawParts
    ) -> npt.NDArray[np.float32]:
        """Return columns of some calls, and of what the law says of them."""
        of_law = _law_columns(self.roofline.take(rows), parts.take(rows))
        known = {**{name: column[rows] for name, column in self.columns.items()}, **of_law}
        return column_matrix({name: known[name] for name in columns})


class KernelBase:
    """Launches and laws, learned per group of operators."""

    def __init__(self) -> None:
        self.launches_s_: dict[str, float] = {}
        #: Share of the floor that the best kernels of a group reach: on a device, usually on those
        #: of a maker, and usually.
        self.reached_: dict[str, float] = {}
        self.laws_: dict[str, LawConstants] = {}

    def fit(self, ready: PreparedCalls, time_s: FloatArray, seed: int = 0) -> KernelBase:
        """State launches and what is reached at most, then fit the laws."""
        from perfmodel.predictors.kernels.kernel_law_fit import fit_law

        self.launches_s_ = _launches(ready, time_s)
        self.reached_ = _reached(ready, time_s)
        stated = self._stated(ready)
        for name, rows in self._fitted_apart(ready):
            group = name.split(" ")[0]
            self.laws_[name] = fit_law(
                ready.roofline.take(rows),
                ready.device[rows],
                time_s[rows],
                stated[rows],
                _expected(group),
                tiled=_is_tiled(group),
                seed=seed,
            )
        return self

    def parts(self, ready: PreparedCalls) -> LawParts:
        """Return what launches and laws say of each call."""
        stated = self._stated(ready)
        columns = np.zeros((len(LawParts._fields), len(ready.group)))
        for kind, rows in _places(ready.kind):
            group = kind.split(" ")[0]
            law = self.laws_.get(kind) or self.laws_.get(group) or _expected(group)
            own = ready.roofline.take(rows)
            columns[:, rows] = law_parts(own, stated[rows], law, tiled=_is_tiled(group))
        return LawParts(*columns)

    def least_s(self, ready: PreparedCalls) -> FloatArray:
        """Return what no call is answered below: the floor, as nearly as kernels ever came to it.

        No clock that lasts is the one of the data sheet, and no kernel keeps every unit busy.
        """
        words = (ready.device_name, ready.maker)
        return np.asarray(ready.roofline.floor_s / _by_word(self.reached_, ready.group, words, 1.0))

    def has_law(self, group: StrArray) -> BoolArray:
        """Tell of each call whether a law of cuts and traffic was fitted to its group."""
        fitted = {name.split(" ")[0] for name in self.laws_}
        return np.isin(group, [name for name in GROUPS if _is_tiled(name) and name in fitted])

    @property
    def device_launch_s(self) -> float:
        """Launch of the kernels that no host waits for: the shortest of all that were stated."""
        return min(self.launches_s_.values(), default=_UNSEEN_LAUNCH_S)

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as JSON values."""
        laws = {name: asdict(law) for name, law in self.laws_.items()}
        return {"launches_s": self.launches_s_, "reached": self.reached_, "laws": laws}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], path: Path) -> KernelBase:
        """Read what :meth:`to_dict` gave; numbers that are none are refused with the path."""
        base = cls()
        base.launches_s_ = _finite_values(stored["launches_s"], path)
        base.reached_ = _finite_values(stored["reached"], path, low=_LEAST_REACHED)
        base.laws_ = {
            str(name): LawConstants.from_dict(_finite_values(law, path))
            for name, law in stored["laws"].items()
        }
        return base

    def _fitted_apart(self, ready: PreparedCalls) -> list[tuple[str, IntArray]]:
        """Return what has a law of its own: every group, and products on enough devices."""
        products = [
            (kind, rows)
            for kind, rows in _places(ready.kind)
            if kind.startswith("product") and len(np.unique(ready.device[rows])) >= _LEAST_DEVICES
        ]
        covered = {kind.split(" ")[0] for kind, _ in products}
        several = [
            (group, rows)
            for group, rows in ready.by_group()
            if group not in covered or len(np.unique(ready.kind[rows])) > 1
        ]
        several = [(group, rows) for group, rows in several if group not in _NOT_FITTED]
        return [*products, *several]

    def _stated(self, ready: PreparedCalls) -> FloatArray:
        return _by_word(self.launches_s_, ready.group, (ready.framework,), _UNSEEN_LAUNCH_S)


def _places(words: StrArray, among: IntArray | None = None) -> list[tuple[str, IntArray]]:
    rows = np.arange(len(words)) if among is None else among
    own = words[rows]
    return [(str(word), rows[own == word]) for word in np.unique(own)]


def _by_word(
    known: Mapping[str, float], group: StrArray, words: Sequence[StrArray], otherwise: float
) -> FloatArray:
    """Return what is known of ``"<group> <word>"`` by the first word, or of the group alone."""
    found = np.full(len(group), np.nan)
    for column in words:
        keys, place = np.unique(np.char.add(np.char.add(group, " "), column), return_inverse=True)
        own = np.array([known.get(key, np.nan) for key in keys.tolist()], dtype=np.float64)[place]
        found = np.where(np.isnan(found), own, found)
    keys, place = np.unique(group, return_inverse=True)
    whole = np.array([known.get(key, otherwise) for key in keys.tolist()], dtype=np.float64)[place]
    return np.where(np.isnan(found), whole, found)


def _is_tiled(group: str) -> bool:
    return group in ("product", "product_fp32")


def _expected(group: str) -> LawConstants:
    if group in _NOT_FITTED:
        return _PLAIN
    return LawConstants() if group in ("product_fp32", "pointwise") else _MATRIX_UNITS


def _law_columns(roofline: KernelRoofline, parts: LawParts) -> dict[str, FloatArray]:
    least = 1e-12
    compute_s, memory_s = np.maximum(parts.compute_s, least), np.maximum(parts.memory_s, least)
    values = (
        np.log2(compute_s / memory_s),
        parts.launch_s / parts.time_s,
        np.log2(parts.depth_parts),
        np.log2(parts.rows),
        np.log2(parts.columns),
        np.log2(compute_s / np.maximum(roofline.compute_s, least)),
        np.log2(memory_s / np.maximum(roofline.memory_s, least)),
    )
    return dict(zip(LAW_COLUMNS, values, strict=True))


def _launches(ready: PreparedCalls, time_s: FloatArray) -> dict[str, float]:
    """Return the launch per group, and per group and framework."""
    found = {}
    for group, rows in ready.by_group():
        found[group] = float(np.quantile(time_s[rows], _LAUNCH_QUANTILE))
        for word in np.unique(ready.framework[rows]).tolist():
            own = time_s[rows[ready.framework[rows] == word]]
            found[f"{group} {word}"] = float(np.quantile(own, _LAUNCH_QUANTILE))
    return found


def _reached(ready: PreparedCalls, time_s: FloatArray) -> dict[str, float]:
    """Return the share of the floor that the best calls of each device come to, per group.

    Of devices that were never seen the median of their maker's others counts, or of all.
    """
    share, found = ready.roofline.floor_s / time_s, dict[str, float]()
    for group, rows in ready.by_group():
        of_maker: dict[str, list[float]] = {}
        for name, own in _places(ready.device_name, rows):
            best = float(np.clip(np.quantile(share[own], _BEST), _LEAST_REACHED, 1.0))
            found[f"{group} {name}"] = best
            of_maker.setdefault(f"{group} {ready.maker[own[0]]}", []).append(best)
        found.update({key: float(np.median(best)) for key, best in of_maker.items()})
        found[group] = float(np.median([best for one in of_maker.values() for best in one]))
    return found


def _finite_values(table: Mapping[str, Any], path: Path, low: float = 0.0) -> dict[str, float]:
    return {str(key): finite(value, path, low=low) for key, value in table.items()}
