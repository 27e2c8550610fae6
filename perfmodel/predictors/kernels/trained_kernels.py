"""Answers of a trained predictor of kernels, with what they rest on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor
from perfmodel.predictors.kernels.kernel_times import (
    DEVICE_LAUNCH_RANGE_S,
    AnalyticalKernels,
    KernelTimes,
)
from perfmodel.types import Basis


class TrainedKernels:
    """Answers by a version of the predictor.

    GPUs alone were learned from, and not every group of operators: all else is answered by
    :class:`.kernel_times.AnalyticalKernels`.
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
        rows = np.flatnonzero(np.isfinite(width) & seen.is_learned(calls, group) & _on_gpus(calls))
        if not len(rows):
            return found
        time_s, apart, share = self._over_implementations(calls.take(rows))
        factor = np.exp(np.hypot(width[rows], apart))
        launch_s = self._predictor.base_.device_launch_s
        device_s = np.minimum(time_s, time_s * (1.0 - share) + launch_s)
        work_s, (least_s, most_s) = np.maximum(device_s - launch_s, 0.0), DEVICE_LAUNCH_RANGE_S
        columns = {
            "time_s": time_s,
            "low_s": time_s / factor,
            "high_s": time_s * factor,
            "basis": np.where(known[rows], Basis.INTERPOLATED.value, Basis.EXTRAPOLATED.value),
            "device_s": device_s,
            "device_low_s": np.minimum(work_s / factor + least_s, device_s),
            "device_high_s": np.maximum(work_s * factor + most_s, device_s),
            "carries_over": seen.carries_over(calls.take(rows), group[rows]),
        }
        for name, values in columns.items():
            getattr(found, name)[rows] = values
        return found

    def _over_implementations(self, calls: KernelCalls) -> tuple[FloatArray, ...]:
        """Return times, deviations of the logarithms of implementations, and shares of launches."""
        where, words = self._expanded(calls)
        asked = replace(calls.take(where), kernel=words)
        logs = np.log(self._predictor.predict(asked))
        count = np.bincount(where, minlength=len(calls))
        mean = np.bincount(where, weights=logs, minlength=len(calls)) / count
        square = np.bincount(where, weights=(logs - mean[where]) ** 2, minlength=len(calls))
        share = np.bincount(where, self._predictor.launch_share(asked), len(calls)) / count
        return np.exp(mean), np.sqrt(square / count), share

    def _expanded(self, calls: KernelCalls) -> tuple[IntArray, np.ndarray]:
        """Return calls once for each implementation that is meant: positions, and the words."""
        group, makers = kernel_group(calls), calls.maker_names
        seen = self._predictor.seen_
        where: list[int] = []
        words: list[str] = []
        for i, stated in enumerate(calls.kernel.tolist()):
            usual = seen.implementations(str(group[i]), str(calls.dtype[i]), str(makers[i]))
            meant = (stated,) if stated else usual
            where += [i] * len(meant)
            words += meant
        return np.array(where, dtype=np.int64), np.array(words, dtype=np.str_)


def _on_gpus(calls: KernelCalls) -> np.ndarray:
    kinds = np.array([spec.kind == "gpu" for spec in calls.devices] or [False])
    return kinds[calls.device]
