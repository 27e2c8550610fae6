"""One row of named columns per step: totals, shares and means over the rows of its sketch.

Trees that are told the rates of a device learn which device it is and little about the next
one: what is learned from these columns holds for devices with records.

Totals are logarithms and everything else shares of the roofline time, so that a deeper network
of the same make lies near its relatives.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.step_table import (
    DEVICE_FACTS,
    ROW_COLUMNS,
    SETTING_COLUMNS,
    StepTable,
    row_memory_s,
)

_CONTRACTIONS = ("matmul", "convolution", "attention", "recurrent")
_CONTRACTION_MEANS = (
    "log_flops", "log_moved_bytes", "log_intensity", "log_gemm_m", "log_gemm_n", "log_gemm_k",
    "log_channels_in", "log_channels_out", "log_kernel_area", "stride", "depthwise",
    "log_groups", "log_spatial_out", "gemm_n_aligned_8", "gemm_k_aligned_8",
    "channels_in_aligned_8", "channels_out_aligned_8",
)  # fmt: skip
_OTHER_MEANS = (
    "log_moved_bytes", "log_output", "log_last_extent", "log_reduction", "in_place",
    "reordered_inputs", "log_largest_reuse", "recent_share_20", "recent_share_24",
    "recent_share_26", "log_axis_stride", "reads_from_convolution", "reads_from_matmul",
    "reads_from_normalization", "read_by_normalization", "read_by_elementwise",
)  # fmt: skip
_CACHE_RATIOS = (0.1, 0.5, 1.0, 4.0, 16.0)
_SHORT_S = (1e-6, 5e-6, 2e-5, 1e-4)
_PEAKS = (
    "narrow_flops",
    "wide_flops",
    "vector_flops",
    "bandwidth",
    "cache_bytes",
    "cores",
    "clock",
)
_TICK_S = 1e-12
#: What a call costs besides its work in the reference time, seconds.
_LAUNCH_S = 3e-6

WHOLE_COLUMNS: tuple[str, ...] = (
    "log_roofline_s", "compute_share", "memory_share", "log_nodes", "log_launches",
    "log_fused_to_traffic", "memory_bound_share", "log_parameter_bytes", "log_activation_bytes",
    *(f"time_share_{c.value}" for c in OP_CLASSES),
    *(f"log_nodes_{c.value}" for c in OP_CLASSES),
    *(f"contraction_{name}" for name in _CONTRACTION_MEANS),
    *(f"other_{name}" for name in _OTHER_MEANS),
    *(f"traffic_below_{ratio}_caches" for ratio in _CACHE_RATIOS),
    *(f"nodes_below_{limit}_s" for limit in _SHORT_S),
    *SETTING_COLUMNS,
    *(f"log_{name}" for name in _PEAKS),
    *DEVICE_FACTS,
)  # fmt: skip
#: Columns that say what a network is made of, device and settings aside.
SHAPE_COLUMNS = tuple(
    i
    for i, name in enumerate(WHOLE_COLUMNS)
    if name.startswith(("time_share_", "log_nodes_", "contraction_", "other_"))
)
#: Facts of a device that say which libraries run there, and not how fast it is.
_LIBRARIES = ("cpu", "amd_gpu")
#: Columns without what tells devices of one maker apart, but for what a step is expected to take.
UNTOLD_COLUMNS: tuple[str, ...] = tuple(
    name
    for name in WHOLE_COLUMNS
    if name in _LIBRARIES or name not in {*DEVICE_FACTS, *(f"log_{peak}" for peak in _PEAKS)}
)
_BLOCK = 512


def whole_rows(table: StepTable) -> tuple[npt.NDArray[np.float32], FloatArray]:
    """Return the columns of every step of a table, and its reference times.

    Returns
    -------
    rows : ndarray of float32, shape (steps, len(WHOLE_COLUMNS))
    reference_s : ndarray, shape (steps, 4)
        Roofline time of the contractions and of all other work, and the time of the calls: what
        trees learn a ratio to; last the time of slow paths, which is added.
    """
    blocks = [
        _block(table, np.arange(begin, min(begin + _BLOCK, len(table.devices))))
        for begin in range(0, len(table.devices), _BLOCK)
    ]
    if not blocks:
        return np.zeros((0, len(WHOLE_COLUMNS)), dtype=np.float32), np.zeros((0, 4))
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def _block(table: StepTable, steps: IntArray) -> tuple[npt.NDArray[np.float32], FloatArray]:
    sketch = table.sketch_of[steps]
    length = table.length[sketch]
    before = np.cumsum(length) - length
    row = np.repeat(table.start[sketch] - before, length) + np.arange(int(length.sum()))
    step = np.repeat(np.arange(len(steps)), length)
    count, fused = table.count[row], table.fused[steps][step]
    peaks = table.peaks[steps]
    calls = np.where(fused, table.fused_launch[row], 1.0) * count
    compute = _compute_s(table, row, peaks[step]) * count
    memory = row_memory_s(table, row, steps[step]) * count
    time = np.maximum(compute, memory)

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(step, weights=values, minlength=len(steps)).astype(np.float64)

    whole = np.maximum(total(time), _TICK_S)
    nodes = np.maximum(total(count), 1.0)
    traffic = table.traffic_bytes[row]
    all_traffic = np.maximum(total(traffic * count), 1.0)
    caches = traffic / peaks[step, 4]
    alone = time / count
    roles = np.array([s.role_bytes for s in table.sketches])[sketch]
    columns = [
        np.log2(whole),
        total(compute) / whole,
        total(memory) / whole,
        np.log2(nodes),
        np.log2(np.maximum(total(calls), 1e-3)),
        np.log2(total(table.fused_bytes[row] * count) / all_traffic + 1e-6),
        total(np.where(memory > compute, time, 0.0)) / whole,
        np.log2(1.0 + roles[:, 0]),
        np.log2(1.0 + roles[:, 2]),
        *_by_class(table, row, step, time, count, whole),
        *_means(table, row, step, time, len(steps)),
        *(total(np.where(caches < ratio, time, 0.0)) / whole for ratio in _CACHE_RATIOS),
        *(total(np.where(alone < limit, count, 0.0)) / nodes for limit in _SHORT_S),
        *table.settings[steps].T,
        *np.log2(peaks).T,
        *table.facts[steps].T,
    ]
    matrix = table.matrix[row]
    reference = [
        total(np.where(matrix, time, 0.0)),
        total(np.where(matrix, 0.0, time)),
        # Never zero in all: a graph of nothing but views has a logarithm too.
        np.maximum(_LAUNCH_S * total(calls), _TICK_S),
        total((table.slow_work[row] * table.slow_rates[steps][step]).sum(axis=1) * count),
    ]
    return np.stack(columns, axis=1).astype(np.float32), np.stack(reference, axis=1)


def _compute_s(table: StepTable, row: IntArray, peaks: FloatArray) -> FloatArray:
    matrix = np.where(table.wide[row], peaks[:, 1], peaks[:, 0])
    return table.flops[row] / np.where(table.matrix[row], matrix, peaks[:, 2])


def _by_class(
    table: StepTable,
    row: IntArray,
    step: IntArray,
    time: FloatArray,
    count: FloatArray,
    whole: FloatArray,
) -> list[FloatArray]:
    cell = step * len(OP_CLASSES) + table.op_class[row]
    size = len(whole) * len(OP_CLASSES)
    shares = np.bincount(cell, weights=time, minlength=size).reshape(len(whole), -1)
    nodes = np.bincount(cell, weights=count, minlength=size).reshape(len(whole), -1)
    return [*(shares / whole[:, None]).T, *np.log2(1.0 + nodes).T]


def _means(
    table: StepTable, row: IntArray, step: IntArray, time: FloatArray, steps: int
) -> list[FloatArray]:
    codes = [i for i, c in enumerate(OP_CLASSES) if c.value in _CONTRACTIONS]
    contraction = np.isin(table.op_class[row], codes)
    found: list[FloatArray] = []
    for chosen, names in ((contraction, _CONTRACTION_MEANS), (~contraction, _OTHER_MEANS)):
        weight = np.where(chosen, time, 0.0)
        total = np.maximum(np.bincount(step, weights=weight, minlength=steps), _TICK_S)
        for name in names:
            values = table.rows[row, ROW_COLUMNS.index(name)]
            found.append(np.bincount(step, weights=weight * values, minlength=steps) / total)
    return found
