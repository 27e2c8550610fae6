"""Answers of a trained predictor of kernels, with what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray, IntArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import is_serving, timed_on_device
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
_LAW_ALONE = 0.9


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
        width = spread.half_width(group, known)
        judged = np.isfinite(width) & on_gpus(calls)
        learned = seen.is_learned(calls, group)
        by_law = judged & ~learned & self._predictor.base_.has_law(group)
        carries_over = seen.carries_over(calls, group)
        carries_over[by_law] = seen.group_carries_over(calls, group)[by_law]
        for rows, law in ((judged & learned, False), (by_law, True)):
            if not rows.any():
                continue
            times = self._over_implementations(calls.take(rows), law=law)
            columns = {
                **self._columns(calls.take(rows), times, width[rows], law=law),
                "basis": np.where(
                    known[rows] & (not law), Basis.INTERPOLATED.value, Basis.EXTRAPOLATED.value
                ),
                "carries_over": carries_over[rows],
            }
            for name, values in columns.items():
                getattr(found, name)[rows] = values
        return found

    def _columns(
        self, calls: KernelCalls, times: _Times, width: FloatArray, *, law: bool
    ) -> dict[str, FloatArray]:
        """Return times and their intervals.

        What a device needs of a call that no table timed there is the rest without the launch: it
        is known no better where the device was learned from than elsewhere.
        """
        unseen = self._predictor.spread_.half_width(kernel_group(calls), np.zeros(len(calls), "?"))
        apart = np.where(times.on_device | np.isnan(unseen), width, np.fmax(width, unseen))
        least = _LAW_ALONE if law else 0.0
        factor, device_factor = (
            np.exp(np.hypot(np.maximum(one, least), times.spread)) for one in (width, apart)
        )
        waits, (least_s, most_s) = 1.0 + row_waits(calls), DEVICE_LAUNCH_RANGE_S
        least_s, most_s = least_s * waits, most_s * waits
        device_s, work_s = times.device_s, times.work_s
        return {
            "time_s": times.time_s,
            "low_s": times.time_s / factor,
            "high_s": times.time_s * factor,
            "device_s": device_s,
            "device_low_s": np.minimum(
                np.where(times.on_device, device_s / factor, work_s / device_factor + least_s),
                device_s,
            ),
            "device_high_s": np.maximum(
                np.where(times.on_device, device_s * factor, work_s * device_factor + most_s),
                device_s,
            ),
        }

    def _over_implementations(self, calls: KernelCalls, *, law: bool) -> _Times:
        where, words = self._expanded(calls, law=law)
        asked = replace(calls.take(where), kernel=words)
        time_s, launch_s = self._predictor.parts(asked, trees=not law)
        on_device = timed_on_device(asked)
        logs, mean = np.log(time_s), _Means(where, len(calls))
        whole = mean.of(logs)
        # Where a framework was timed on the device it tells what that needs; where none was, what
        # is left of the others without the launch, which was the host's.
        counted = np.where(mean.of(on_device)[where] > 0, on_device, True)
        work_s = np.where(on_device, time_s, np.maximum(time_s - launch_s, 1e-9))
        own_s = np.where(on_device, time_s, np.minimum(time_s, work_s + self._launch_s(asked)))
        return _Times(
            time_s=np.exp(whole),
            spread=np.sqrt(mean.of((logs - whole[where]) ** 2)),
            device_s=np.minimum(np.exp(mean.of(np.log(own_s), counted)), np.inf),
            work_s=np.exp(mean.of(np.log(work_s), counted)),
            on_device=mean.of(on_device) > 0,
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
    """Of each call: means over its implementations, and how far the logarithms are apart.

    ``work_s`` is ``device_s`` without a launch, or all of it where the device was timed
    (``on_device``).
    """

    time_s: FloatArray
    spread: FloatArray
    device_s: FloatArray
    work_s: FloatArray
    on_device: BoolArray


@dataclass(frozen=True)
class _Means:
    """Means over what belongs to each of some calls."""

    where: IntArray
    count: int

    def of(self, values: np.ndarray, counted: np.ndarray | None = None) -> FloatArray:
        """Return the mean of each call over what counts; of everything where None is told."""
        weight = np.ones(len(values)) if counted is None else counted.astype(np.float64)
        total, number = (
            np.bincount(self.where, weights=each, minlength=self.count)
            for each in (values * weight, weight)
        )
        return np.asarray(total / number)
