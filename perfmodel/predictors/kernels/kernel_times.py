"""Times of kernel calls with intervals, and what they rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.predictors.predictor_checks import finite
from perfmodel.types import Basis

#: Share of the roofline that single kernels typically reach, and between which nine in ten lie.
#: Stated from experience, not fitted; they answer where nothing was learned.
TYPICAL_EFFICIENCY = 0.5
EFFICIENCY_RANGE = (0.1, 0.95)
#: What a kernel takes however little it does.
LAUNCH_S = 4e-6
#: Shortest kernel that reads and writes, and what one takes besides that waits once for sums of its
#: rows: read off PyTorch's kernels in Vidur's table, which was timed on the device in whole
#: microseconds (additions and GELU up to 5 us, layer norms up to 12 us; of the A100 and the A40
#: alone 2.1 and 2.4 us, 5.2 and 5.5 us).
SHORTEST_STREAM_S = 2.2e-6
WAIT_S = 3.2e-6
#: Between which nine in ten of either lie.
DEVICE_LAUNCH_RANGE_S = (1e-6, 6e-6)
#: Operators that wait once for the sums of their rows.
_ALONG_ROWS = ("softmax", "layer_norm", "rms_norm")
#: Long enough for every word of a basis.
_WORDS = f"<U{max(map(len, Basis))}"


@dataclass(frozen=True, kw_only=True)
class KernelTimes:
    """Answers to many calls; every field has one entry a call.

    Parameters
    ----------
    time_s, low_s, high_s : ndarray
        ``0 < low_s <= time_s <= high_s``; nine in ten measured times lie between.
    basis : ndarray of str
        Words of :class:`~perfmodel.types.Basis`.
    device_s, device_low_s, device_high_s : ndarray
        Of the time: what the device needs, however long the host takes to launch.
    carries_over : ndarray of bool
        Whether such kernels were learned on several devices of the maker.
    """

    time_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray
    basis: npt.NDArray[np.str_]
    device_s: FloatArray
    device_low_s: FloatArray
    device_high_s: FloatArray
    carries_over: BoolArray


class KernelModel(Protocol):
    """Answers for single kernels."""

    @property
    def version(self) -> str:
        """Which one, ``"<name>/<version>"``."""

    def times(self, calls: KernelCalls) -> KernelTimes:
        """Return the time of each call."""


class AnalyticalKernels:
    """Answers ``launch + roofline / efficiency`` for any call on any accelerator."""

    version = "roofline"

    def times(self, calls: KernelCalls) -> KernelTimes:
        """Return the time of each call; nothing was learned."""
        roofline_s = kernel_roofline(calls).roofline_s
        worst, best = EFFICIENCY_RANGE
        waits, (shortest_s, longest_s) = row_waits(calls), DEVICE_LAUNCH_RANGE_S
        time_s = LAUNCH_S + WAIT_S * waits + roofline_s / TYPICAL_EFFICIENCY
        low_s = LAUNCH_S / 2 + shortest_s * waits + roofline_s / best
        high_s = 3 * LAUNCH_S + longest_s * waits + roofline_s / worst
        return KernelTimes(
            time_s=time_s,
            low_s=low_s,
            high_s=high_s,
            basis=np.full(len(calls), Basis.ANALYTICAL.value, dtype=_WORDS),
            device_s=time_s.copy(),
            device_low_s=low_s.copy(),
            device_high_s=high_s.copy(),
            carries_over=np.zeros(len(calls), dtype=np.bool_),
        )


def on_gpus(calls: KernelCalls) -> BoolArray:
    """Tell of each call whether it runs on a GPU."""
    kinds = np.array([spec.kind == "gpu" for spec in calls.devices] or [False])
    return np.asarray(kinds[calls.device])


def row_waits(calls: KernelCalls) -> FloatArray:
    """Return how often the blocks of each call wait for sums of its rows: once or never."""
    return np.asarray(on_gpus(calls) & np.isin(calls.op, _ALONG_ROWS), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class KernelSpread:
    """How far measured times lie from answers: half widths of intervals of their logarithms.

    Parameters
    ----------
    known, unseen : mapping of str to float
        By group of operators: on devices that were learned from, and on those that were not.
    """

    known: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    unseen: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def half_width(
        self, group: npt.NDArray[np.str_], is_known: npt.NDArray[np.bool_]
    ) -> FloatArray:
        """Return the half width of each call; NaN where the group was never judged."""
        found = np.full(len(group), math.nan)
        for table, rows in ((self.known, is_known), (self.unseen, ~is_known)):
            for name, width in table.items():
                found[rows & (group == name)] = width
        return found

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the half widths as JSON values."""
        return {"known": dict(self.known), "unseen": dict(self.unseen)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], path: Path) -> Self:
        """Read what :meth:`to_dict` gave; numbers that are none are refused with the path."""
        known, unseen = (
            {str(group): finite(width, path, low=0.0) for group, width in stored[name].items()}
            for name in ("known", "unseen")
        )
        return cls(known=known, unseen=unseen)
