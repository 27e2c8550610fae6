"""Answers of a trained predictor of kernels, with what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray, IntArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import is_serving, timed_on_device
from perfmodel.intervals import DEVIATIONS
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor
from perfmodel.predictors.kernels.kernel_times import (
    DEVICE_LAUNCH_RANGE_S,
    SHORTEST_STREAM_S,
    WAIT_S,
    AnalyticalKernels,
    KernelTimes,
    on_gpus,
    row_waits,
)
from perfmodel.types import Basis

#: Half width of the interval of the law alone: each operator and type of products was left out of
#: its fit in turn (``python benchmarks/kernel_types.py``).
_LAW_ALONE = 0.84
#: Less than any kernel takes.
_NOTHING_S = 1e-9


class TrainedKernels:
    """Answers by a version of the predictor.

    Products in a type that no table has are answered by the law of their group, without the trees
    above it, which know nothing of them. GPUs alone were learned from, and not every group of
    operators: all else is answered by :class:`.kernel_times.AnalyticalKernels`.
    """

    def __init__(self, predictor: KernelPredictor, version: str) -> None:
        self._predictor = predictor
        self._otherwise = AnalyticalKernels()
        self.version = version

    def times(self, calls: KernelCalls) -> KernelTimes:
        """Return the time of each call, with an interval."""
        found = self._otherwise.times(calls)
        group = kernel_group(calls)
        seen, spread = self._predictor.seen_, self._predictor.spread_
        known = seen.is_known(calls, group)
        judged = np.isfinite(spread.half_width(group, known)) & on_gpus(calls)
        learned = seen.is_learned(calls, group)
        by_law = ~learned & self._predictor.base_.has_law(group)
        for which, law in ((learned, False), (by_law, True)):
            rows = np.flatnonzero(judged & which)
            if not len(rows):
                continue
            asked, of_group = calls.take(rows), group[rows]
            carries_over = seen.group_carries_over if law else seen.carries_over
            interpolated = known[rows] & (not law)
            columns = {
                **self._columns(asked, interpolated, law=law),
                "basis": np.where(interpolated, Basis.INTERPOLATED.value, Basis.EXTRAPOLATED.value),
                "carries_over": carries_over(asked, of_group),
            }
            for name, values in columns.items():
                getattr(found, name)[rows] = values
        return found

    def _columns(
        self, calls: KernelCalls, interpolated: BoolArray, *, law: bool
    ) -> dict[str, FloatArray]:
        """Return times and their intervals.

        What a device needs of a call that was not timed there is what is left without the launch:
        it is known no better where the device was learned from than elsewhere.
        """
        times = self._over_implementations(calls, law=law)
        whole = np.exp(
            np.hypot(self._width(calls, interpolated, law=law), DEVIATIONS * times.spread)
        )
        on_device = times.on_device
        of_device = self._width(calls, interpolated & on_device, law=law)
        factor = np.exp(np.hypot(of_device, DEVIATIONS * times.spread))
        least_s, most_s = (
            np.where(on_device, 0.0, launch_s * (1.0 + row_waits(calls)))
            for launch_s in DEVICE_LAUNCH_RANGE_S
        )
        return {
            "time_s": times.time_s,
            "low_s": times.time_s / whole,
            "high_s": times.time_s * whole,
            "device_s": times.device_s,
            "device_low_s": np.minimum(times.work_s / factor + least_s, times.device_s),
            "device_high_s": np.maximum(times.work_s * factor + most_s, times.device_s),
        }

    def _width(self, calls: KernelCalls, interpolated: BoolArray, *, law: bool) -> FloatArray:
        """Return half widths of intervals; those of a group that was judged in one way alone."""
        spread, group = self._predictor.spread_, kernel_group(calls)
        found = spread.half_width(group, interpolated)
        found = np.where(np.isnan(found), spread.half_width(group, ~interpolated), found)
        return np.asarray(np.maximum(found, _LAW_ALONE) if law else found)

    def _over_implementations(self, calls: KernelCalls, *, law: bool) -> _Times:
        """Return means of the logarithms over the implementations that are meant.

        Of one that was not timed on the device, that needs what is left without the launch, which
        was the host's, and a launch by itself.
        """
        where, words = self._expanded(calls, law=law)
        asked = replace(calls.take(where), kernel=words)
        time_s, launch_s = self._predictor.parts(asked, trees=not law)
        on_device = timed_on_device(asked)
        work_s = np.where(on_device, time_s, np.maximum(time_s - launch_s, _NOTHING_S))
        own_s = np.minimum(time_s, work_s + np.where(on_device, 0.0, self._launch_s(asked)))
        count = np.bincount(where, minlength=len(calls))

        def mean(values: FloatArray) -> FloatArray:
            return np.bincount(where, weights=values, minlength=len(calls)) / count

        logs = np.log(time_s)
        middle = mean(logs)
        return _Times(
            time_s=np.exp(middle),
            spread=np.sqrt(mean((logs - middle[where]) ** 2)),
            device_s=np.exp(mean(np.log(own_s))),
            work_s=np.exp(mean(np.log(work_s))),
            on_device=mean(on_device.astype(np.float64)) == 1.0,
        )

    def _launch_s(self, calls: KernelCalls) -> FloatArray:
        """Return what the device takes of a call however little it does."""
        streams = kernel_group(calls) == "pointwise"
        launch_s = np.where(streams, SHORTEST_STREAM_S, self._predictor.base_.device_launch_s)
        return np.asarray(launch_s + WAIT_S * row_waits(calls))

    def _expanded(self, calls: KernelCalls, *, law: bool) -> tuple[IntArray, StrArray]:
        """Return calls once for each implementation that is meant: positions, and the words."""
        group, makers = kernel_group(calls), calls.maker_names
        seen = self._predictor.seen_
        where: list[int] = []
        words: list[str] = []
        for i, stated in enumerate(calls.kernel.tolist()):
            dtype = "" if law else str(calls.dtype[i])
            usual = seen.implementations(str(group[i]), dtype, str(makers[i]))
            if law:
                usual = tuple(filter(is_serving, usual)) or usual
            meant: Sequence[str] = (stated,) if stated else usual
            where += [i] * len(meant)
            words += meant
        return np.array(where, dtype=np.int64), np.array(words, dtype=np.str_)


@dataclass(frozen=True, kw_only=True)
class _Times:
    """Of each call: means over its implementations, and the deviation of the logarithms.

    ``work_s`` is ``device_s`` without a launch, or all of it of implementations that were timed on
    the device; ``on_device`` says whether all were.
    """

    time_s: FloatArray
    spread: FloatArray
    device_s: FloatArray
    work_s: FloatArray
    on_device: BoolArray
