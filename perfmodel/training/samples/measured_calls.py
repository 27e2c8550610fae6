"""Measured kernels as columns, and which of them are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.kernels.kernel_calls import KernelCalls, kernel_calls
from perfmodel.importers.published import PublishedKernel


@dataclass(frozen=True, kw_only=True)
class MeasuredCalls:
    """Kernel calls with their times.

    Parameters
    ----------
    time_s : ndarray, shape (calls,)
    """

    calls: KernelCalls
    time_s: FloatArray

    def __len__(self) -> int:
        return len(self.calls)

    def take(self, rows: IntArray | np.ndarray) -> MeasuredCalls:
        """Return some of them."""
        return MeasuredCalls(calls=self.calls.take(rows), time_s=self.time_s[rows])


def measured_calls(
    kernels: Sequence[PublishedKernel], catalog: Catalog | None = None
) -> MeasuredCalls:
    """Return records as columns.

    Raises
    ------
    TrainingError
        No records.
    """
    if not kernels:
        raise TrainingError("There are no kernel records; import tables of kernels first.")
    catalog = Catalog.default() if catalog is None else catalog
    specs = {name: catalog.get(name) for name in {k.accelerator for k in kernels}}
    calls = kernel_calls(
        op=[k.op for k in kernels],
        dtype=[k.dtype for k in kernels],
        accelerator=[specs[k.accelerator] for k in kernels],
        shape=[k.shape for k in kernels],
        kernel=[k.kernel for k in kernels],
    )
    return MeasuredCalls(calls=calls, time_s=np.array([k.time_s for k in kernels]))


def same_shapes(calls: KernelCalls, limit: int, seed: int = 0) -> IntArray:
    """Return positions of at most ``limit`` calls of each operator and device.

    Calls are chosen by their extents, so that the same shapes remain on every device.

    Returns
    -------
    ndarray of int
        Sorted.
    """
    rank = _shape_hash(calls, seed)
    kind = np.unique(np.char.add(calls.op, calls.device_names), return_inverse=True)[1]
    order = np.lexsort((rank, kind))
    place = np.arange(len(order)) - np.searchsorted(kind[order], kind[order])
    return np.sort(order[place < limit]).astype(np.int64)


def _shape_hash(calls: KernelCalls, seed: int) -> np.ndarray:
    """Mix the extents of each call into 64 bits (Fibonacci hashing and shifts)."""
    mixed = np.full(len(calls), seed, dtype=np.uint64)
    step = np.uint64(0x9E3779B97F4A7C15)
    for name in sorted(calls.shape):
        bits = np.nan_to_num(calls.shape[name], nan=-1.0).view(np.uint64)
        mixed = (mixed ^ (bits * step)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed
