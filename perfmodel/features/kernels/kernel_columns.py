"""Columns of kernel calls that carry over to accelerators that were never measured.

Sizes are stated against what the device has: arithmetic against its ridge point, bytes against its
cache, tiles against its multiprocessors. A device is described by rates per multiprocessor and
cycle and by its year, which neighbours share, not by absolute rates, which name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import BoolArray, Columns, FloatArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls, kernel_calls
from perfmodel.features.kernels.kernel_work import (
    MATRIX_OPS,
    KernelWork,
    kernel_dtype,
    kernel_work,
    peak_flops_per_s,
)
from perfmodel.types import Precision

#: Raised when the meaning of a column changes.
SCHEMA_VERSION = 2

#: Output tiles that libraries of matrix products cut the work into, rows by columns.
TILES = ((32, 32), (64, 64), (128, 64), (128, 128), (256, 128))

_OPS = (
    "gemm", "bmm", "conv2d", "softmax", "layer_norm", "rms_norm", "embedding", "rope", "pow",
)  # fmt: skip
#: First word of an implementation: whose harness measured it.
FRAMEWORKS = (
    "torch", "vllm", "sglang", "trtllm", "vidur", "deepbench", "tensorflow", "mlx", "mps",
)  # fmt: skip
#: Words in the name of an implementation that say how it works.
_FAMILIES = (
    "triton", "flashinfer", "trtllm", "cutlass", "deepgemm", "cutedsl", "marlin", "fa2", "fa3",
    "flash_attn", "decode", "torch_flow",
)  # fmt: skip
_SHAPE_COLUMNS = (
    "inputs", "head_dim", "kv_heads", "heads", "context", "tokens", "batch", "skew", "experts",
    "expert_parallel", "top_k", "kv_element_bytes",
)  # fmt: skip

#: Bytes that a multiprocessor takes from the last-level cache in a cycle, a low estimate.
CACHE_BYTES_PER_CORE_CYCLE = 12.0
#: Copies of the operands that a benchmark of a serving framework's matrix products cycles
#: through: calls are fast only where all of them fit into the cache.
ROTATED_COPIES = 5.0
#: Serving frameworks, whose products one benchmark takes as graphs that a device runs by itself: no
#: host is in their times. Those of TensorRT-LLM lie 1 to 5 % from Vidur's on an A100, which were
#: timed on the device, from 5 us on. Their attention does more than a kernel of attention.
_SERVING = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True, kw_only=True)
class KernelRoofline(Columns):
    """The bounds of many calls on their devices; every field has one entry a call.

    Parameters
    ----------
    compute_s, memory_s : ndarray
        Arithmetic at the peak rate; compulsory traffic at the peak bandwidth of the memory.
    cached_share : ndarray
        Part of the traffic that repeated calls are likely to find in the cache, in [0, 1].
    tflops_per_watt : ndarray
        Peak rate over the power limit: of sixteen-bit types for all that are narrower, since the
        energy of an operation falls as its rate rises.
    floor_s : ndarray
        What no call can beat: the fewest multiplications at the peak rate, and the traffic that
        does not fit into the cache.
    core_count, clock_hz, bandwidth_bytes_per_s, year : ndarray
        Facts of the devices; of the multiprocessors, their boost clock.
    """

    compute_s: FloatArray
    memory_s: FloatArray
    cached_share: FloatArray
    tflops_per_watt: FloatArray
    floor_s: FloatArray
    work: KernelWork
    peak_flops_per_s: FloatArray
    clock_hz: FloatArray
    core_count: FloatArray
    bandwidth_bytes_per_s: FloatArray
    year: FloatArray

    @property
    def roofline_s(self) -> FloatArray:
        """``max(FLOPs / peak, bytes / bandwidth)``."""
        return np.maximum(self.compute_s, self.memory_s)


def kernel_roofline(calls: KernelCalls) -> KernelRoofline:
    """Return the bounds of every call.

    Raises
    ------
    InvalidInputError
        As :func:`~perfmodel.features.kernels.kernel_work.kernel_work`.
    """
    work, peak = kernel_work(calls), _peaks(calls)
    bandwidth = calls.fact([d.bandwidth_bytes_per_s for d in calls.devices])
    share = _cached_share(calls, work)
    traffic = work.traffic_bytes
    beyond = np.maximum(traffic - _cache_bytes(calls), 0.0)
    return KernelRoofline(
        compute_s=work.flops / peak,
        memory_s=traffic / bandwidth,
        cached_share=share,
        tflops_per_watt=_tflops_per_watt(calls),
        floor_s=np.maximum(work.least_flops / peak, beyond / bandwidth),
        work=work,
        peak_flops_per_s=peak,
        clock_hz=calls.fact([d.clock_hz or 1.5e9 for d in calls.devices]),
        core_count=_core_count(calls),
        bandwidth_bytes_per_s=bandwidth,
        year=calls.fact([float(d.year or 2020) for d in calls.devices]),
    )


def kernel_columns(calls: KernelCalls, roofline: KernelRoofline) -> Mapping[str, FloatArray]:
    """Return every feature column by name, in a fixed order.

    Parameters
    ----------
    roofline : KernelRoofline
        That of the same calls.

    Returns
    -------
    mapping of str to ndarray, shape (calls,)
        Finite; -1 stands for an extent that a call does not have.
    """
    return {
        **_extents(calls, roofline.work),
        **_against_device(calls, roofline),
        **_tiles(calls, roofline.work),
        **_types(calls),
        **_device_facts(calls, roofline),
        **_words(calls),
    }


#: Columns that say which device it is rather than how a call relates to it.
DEVICE_COLUMNS = (
    "log_flops_per_core_cycle",
    "log_bytes_per_core_cycle",
    "log_watt_per_tflops",
    "year",
)


def column_matrix(columns: Mapping[str, FloatArray]) -> npt.NDArray[np.float32]:
    """Return the columns side by side, one row a call."""
    return np.stack(list(columns.values()), axis=1).astype(np.float32)


def column_names() -> list[str]:
    """Return the names of all columns, in order."""
    nothing = kernel_calls(op=[], dtype=[], accelerator=[], shape=[])
    return list(kernel_columns(nothing, kernel_roofline(nothing)))


def framework(calls: KernelCalls) -> StrArray:
    """Return the first word of each call's implementation; ``""`` where none is known."""
    words, place = np.unique(calls.kernel, return_inverse=True)
    first = [str(word).split(" ")[0].lower() for word in words]
    return np.array(first or [""], dtype=np.str_)[place]


def timed_on_device(calls: KernelCalls) -> BoolArray:
    """Tell of each call whether tables of its framework hold the time of the device alone."""
    return np.asarray((calls.op == "gemm") & np.isin(framework(calls), _SERVING))


def is_serving(implementation: str) -> bool:
    """Tell whether an implementation is that of a serving framework."""
    return implementation.split(" ")[0].lower() in _SERVING


def _peaks(calls: KernelCalls) -> FloatArray:
    """Peak of each call: matrix rate of its type, or the plain fp32 rate of point-wise work."""
    peak = calls.fact([peak_flops_per_s(kernel_dtype("fp32"), d) for d in calls.devices])
    matrix = np.isin(calls.op, MATRIX_OPS)
    for word in np.unique(calls.dtype).tolist():
        rows = matrix & (calls.dtype == word)
        peak[rows] = calls.take(rows).fact(
            [peak_flops_per_s(kernel_dtype(word), d) for d in calls.devices]
        )
    return peak


def _tflops_per_watt(calls: KernelCalls) -> FloatArray:
    watts = [(d.tdp_w or 250.0) * 1e12 for d in calls.devices]
    rates = {
        precision: calls.fact(
            [d.flops_per_s(precision) / w for d, w in zip(calls.devices, watts, strict=True)]
        )
        for precision in (Precision.FP32, Precision.BF16)
    }
    return np.where(calls.dtype == "fp32", rates[Precision.FP32], rates[Precision.BF16])


def _cached_share(calls: KernelCalls, work: KernelWork) -> FloatArray:
    """Return the part of the traffic that a repeated call finds in the cache.

    A call that is repeated alone finds as much as fits, ``min(1, cache / traffic)``. One that
    takes turns with copies of its operands finds them or not: ``1 / (1 + fill^4)``.
    """
    fill = work.traffic_bytes / np.maximum(_cache_bytes(calls), 1.0)
    rotating = timed_on_device(calls)
    turns = 1.0 / (1.0 + np.minimum(ROTATED_COPIES * fill, 1e6) ** 4)
    return np.where(rotating, turns, 1.0 / np.maximum(fill, 1.0))


def _cache_bytes(calls: KernelCalls) -> FloatArray:
    return calls.fact([d.cache_bytes or 0.0 for d in calls.devices])


def _core_count(calls: KernelCalls) -> FloatArray:
    return calls.fact([float(d.core_count or 1) for d in calls.devices])


def _log2(values: FloatArray) -> FloatArray:
    return np.log2(np.maximum(values, 1e-12))


def _alignment(extent: FloatArray) -> FloatArray:
    """Return the exponent of the largest power of two, up to 64, that divides an extent."""
    whole = np.round(np.minimum(extent, 1e15)).astype(np.int64)
    return _log2(np.gcd(whole, 64).astype(np.float64))


def _extents(calls: KernelCalls, work: KernelWork) -> dict[str, FloatArray]:
    columns = {
        "log_batch": _log2(work.batch),
        "log_m": _log2(work.m),
        "log_n": _log2(work.n),
        "log_k": _log2(work.k),
        "aligned_m": _alignment(work.m),
        "aligned_n": _alignment(work.n),
        "aligned_k": _alignment(work.k),
        "log_flops": _log2(work.flops + 1.0),
        "log_bytes": _log2(work.traffic_bytes),
        "log_intensity": _log2((work.flops + 1.0) / work.traffic_bytes),
        "log_weight_share": _log2(work.weight_bytes / work.traffic_bytes + 1e-3),
        "log_input_share": _log2(work.input_bytes / work.traffic_bytes + 1e-3),
    }
    for name in _SHAPE_COLUMNS:
        column = calls.shape.get(name)
        values = np.full(len(calls), np.nan) if column is None else column
        columns[f"shape_{name}"] = np.nan_to_num(values, nan=-1.0)
    return columns


def _against_device(calls: KernelCalls, roofline: KernelRoofline) -> dict[str, FloatArray]:
    work, cores = roofline.work, _core_count(calls)
    cache = np.maximum(_cache_bytes(calls), 1.0)
    return {
        "log_over_ridge": _log2(roofline.compute_s / roofline.memory_s + 1e-6),
        "log_compute_us": _log2(roofline.compute_s * 1e6 + 1e-3),
        "log_memory_us": _log2(roofline.memory_s * 1e6 + 1e-3),
        "cached_share": roofline.cached_share,
        "log_cache_fill": _log2(work.traffic_bytes / cache),
        "log_weight_cache_fill": _log2(work.weight_bytes / cache + 1e-6),
        "log_input_cache_fill": _log2(work.input_bytes / cache + 1e-6),
        "log_output_per_core": _log2(work.batch * work.m * work.n / cores),
        "log_batch_per_core": _log2(work.batch / cores),
        "log_rows_per_core": _log2(work.batch * work.m / cores),
    }


def _tiles(calls: KernelCalls, work: KernelWork) -> dict[str, FloatArray]:
    """Waves of tiles over the multiprocessors, how full the last is, and how full the tiles are."""
    cores = _core_count(calls)
    columns: dict[str, FloatArray] = {}
    best = np.zeros(len(calls))
    for rows, width in TILES:
        tiles = work.batch * np.ceil(work.m / rows) * np.ceil(work.n / width)
        waves = tiles / cores
        filled = work.batch * work.m * work.n / (np.ceil(waves) * cores * rows * width)
        name = f"{rows}x{width}"
        columns[f"log_waves_{name}"] = _log2(waves)
        columns[f"full_waves_{name}"] = waves / np.ceil(waves)
        columns[f"filled_{name}"] = filled
        best = np.maximum(best, filled)
    columns["best_filled"] = best
    return columns


def _types(calls: KernelCalls) -> dict[str, FloatArray]:
    words, place = np.unique(calls.dtype, return_inverse=True)
    kinds = [kernel_dtype(word) for word in words.tolist()]

    def spread(values: list[float]) -> FloatArray:
        return np.array(values, dtype=np.float64)[place]

    return {
        "input_bytes": spread([k.input_bytes for k in kinds]),
        "weight_bytes": spread([k.weight_bytes for k in kinds]),
        "scaled": spread([k.scaled for k in kinds]),
        "speed_up": spread([k.speed_up for k in kinds]),
        "plain_fp32": spread([float(word == "fp32") for word in words.tolist()]),
    }


def _device_facts(calls: KernelCalls, roofline: KernelRoofline) -> dict[str, FloatArray]:
    cycles = roofline.core_count * roofline.clock_hz
    watts = calls.fact([d.tdp_w or 250.0 for d in calls.devices])
    return {
        "log_flops_per_core_cycle": _log2(roofline.peak_flops_per_s / cycles),
        "log_bytes_per_core_cycle": _log2(roofline.bandwidth_bytes_per_s / cycles),
        "log_watt_per_tflops": _log2(watts / roofline.peak_flops_per_s * 1e12),
        "year": roofline.year,
    }


def _words(calls: KernelCalls) -> dict[str, FloatArray]:
    first = framework(calls)
    words, place = np.unique(calls.kernel, return_inverse=True)
    columns = {f"op_{op}": (calls.op == op).astype(np.float64) for op in _OPS}
    columns |= {f"by_{name}": (first == name).astype(np.float64) for name in FRAMEWORKS}
    for family in _FAMILIES:
        named = np.array([family in word.lower() for word in words.tolist()], dtype=np.float64)
        columns[f"kernel_{family}"] = named[place] if len(calls) else np.zeros(0)
    return columns
