"""Many steps as flat arrays: what the joint predictors compute on.

The rows of all distinct sketches lie one after the other; a step points at the rows of its
sketch and adds what depends on its device and its settings. For row i of a step on a device::

    compute_s = F_i / peak(engine, operand width)
    memory_s  = B_i / bandwidth          (B_i: bytes that leave the fused kernel, if compiled;
                                          less where the cache holds them: :mod:`.memory_time`)
    roofline_s = max(compute_s, memory_s)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.power_limit import lasting_share
from perfmodel.devices.processors.reached_rates import arithmetic_share, stream_share
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.nodes import OP_CLASSES, STATIC_COLUMNS
from perfmodel.features.roofline import device_share
from perfmodel.features.steps.memory_time import cache_of, memory_time_s, reuse_of_rows
from perfmodel.features.steps.releases import TYPICAL_TORCH, torch_version
from perfmodel.features.steps.row_sorts import row_sorts
from perfmodel.features.steps.sketch import NEIGHBOUR_COLUMNS, StepSketch
from perfmodel.features.steps.slow_paths import (
    SLOW_PATHS,
    bytes_of_parts,
    slow_path_rates,
    slow_path_work,
)
from perfmodel.features.steps.step import Step
from perfmodel.graph.cost.base import OpClass
from perfmodel.types import Compiler, Engine, Framework, MemoryFormat, Mode, Precision

#: Compilers that fuse.
FUSING = (Compiler.INDUCTOR, Compiler.TENSORRT)

_CODES = ("producer_class", "consumer_class")
_KEPT = tuple(i for i, name in enumerate(STATIC_COLUMNS) if name not in _CODES)
_ALIGNED = ("gemm_n_mod_16", "gemm_k_mod_16", "channels_in_mod_16", "channels_out_mod_16")
_ALIGNMENTS = (2, 4, 8, 16)

#: Columns of a row that no device changes.
ROW_COLUMNS: tuple[str, ...] = (
    *(STATIC_COLUMNS[i] for i in _KEPT),
    *NEIGHBOUR_COLUMNS,
    "log_fused_bytes",
    "fused_launch",
    *(f"{name.removesuffix('_mod_16')}_aligned_{by}" for name in _ALIGNED for by in _ALIGNMENTS),
)
SETTING_COLUMNS: tuple[str, ...] = (
    "training", "channels_last", "wide", "autocast", "bfloat", "int8", "fused", "onnxruntime",
    "cpu", "torch_version", "before_torch_2", "alone", "tensorflow", "another_framework",
)  # fmt: skip
#: Facts of a device, each a logarithm around a typical value, or 1 where it is so.
DEVICE_FACTS: tuple[str, ...] = (
    "matrix_to_vector", "matrix_to_power", "matrix_to_bandwidth", "cores", "clock", "cpu",
    "amd_gpu",
)  # fmt: skip

_ITEM = STATIC_COLUMNS.index("input_item_bytes")
_WIDE_ITEM_BYTES = 4.0
_CONVOLUTION = OP_CLASSES.index(OpClass.CONVOLUTION)
_WINOGRAD = 4.0
#: What a table holds of sketches, of their rows, and of steps.
_OF_SKETCHES = ("sketches", "start", "length")
_OF_ROWS = (
    "rows", "flops", "traffic_bytes", "fused_bytes", "fused_launch", "count", "log_output",
    "op_class", "sort", "matrix", "wide", "slow_work", "reuse",
)  # fmt: skip
_OF_STEPS = (
    "sketch_of", "peaks", "boost", "slow_rates", "cache", "settings", "facts", "devices",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """Steps over the rows of their sketches.

    Parameters
    ----------
    start, length : ndarray of int64, shape (sketches,)
        Where the rows of each sketch lie.
    rows : ndarray of float32, shape (rows, len(ROW_COLUMNS))
    flops, traffic_bytes, fused_bytes, fused_launch, count : ndarray, shape (rows,)
    log_output : ndarray, shape (rows,)
    op_class, sort : ndarray of int64, shape (rows,)
        Positions in ``OP_CLASSES`` and in :data:`~perfmodel.features.steps.row_sorts.ROW_SORTS`.
    matrix, wide : ndarray of bool, shape (rows,)
        Rows for the matrix units; rows on operands of 4 bytes or more.
    slow_work : ndarray, shape (rows, len(SLOW_PATHS))
        Work on slow paths, see :mod:`~perfmodel.features.steps.slow_paths`.
    sketch_of : ndarray of int64, shape (steps,)
    peaks : ndarray, shape (steps, 7)
        FLOP/s of narrow and wide matrix work and of vector work, bytes/s, cache bytes, cores,
        Hz; at the clock that lasts.
    boost : ndarray, shape (steps,)
        Peak arithmetic over that which lasts and stands in ``peaks``, >= 1.
    slow_rates : ndarray, shape (steps, len(SLOW_PATHS))
        Seconds that a unit of that work costs.
    reuse, cache : ndarray, shapes (rows, 2) and (steps, 2)
        What rows use again and what caches hold of it, see
        :mod:`~perfmodel.features.steps.memory_time`.
    settings : ndarray of float32, shape (steps, len(SETTING_COLUMNS))
    facts : ndarray of float32, shape (steps, len(DEVICE_FACTS))
    """

    sketches: tuple[StepSketch, ...]
    start: IntArray
    length: IntArray
    rows: npt.NDArray[np.float32]
    flops: FloatArray
    traffic_bytes: FloatArray
    fused_bytes: FloatArray
    fused_launch: FloatArray
    count: FloatArray
    log_output: FloatArray
    op_class: IntArray
    sort: IntArray
    matrix: npt.NDArray[np.bool_]
    wide: npt.NDArray[np.bool_]
    slow_work: FloatArray
    sketch_of: IntArray
    peaks: FloatArray
    boost: FloatArray
    slow_rates: FloatArray
    reuse: FloatArray
    cache: FloatArray
    settings: npt.NDArray[np.float32]
    facts: npt.NDArray[np.float32]
    devices: tuple[str, ...]

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Records of one operator."""
        return np.asarray(self.settings[:, SETTING_COLUMNS.index("alone")] > 0)

    @property
    def fused(self) -> npt.NDArray[np.bool_]:
        """Steps whose compiler fuses."""
        return np.asarray(self.settings[:, SETTING_COLUMNS.index("fused")] > 0)

    def first(self, steps: int) -> StepTable:
        """Return the first steps as a table of their own, as if they alone had been laid out."""
        sketches = int(self.sketch_of[:steps].max(initial=-1)) + 1
        rows = int(self.length[:sketches].sum())
        ends = ((_OF_SKETCHES, sketches), (_OF_ROWS, rows), (_OF_STEPS, steps))
        cut = {name: getattr(self, name)[:end] for names, end in ends for name in names}
        return replace(self, **cut)


def step_table(steps: Sequence[Step], *, as_stated: bool = False) -> StepTable:
    """Lay steps out as flat arrays; a sketch that several steps share is laid out once.

    Parameters
    ----------
    as_stated : bool
        Peaks are those that makers state to last, whatever devices reach of them.
    """
    sketches = list({id(step.sketch): step.sketch for step in steps}.values())
    place = {id(sketch): position for position, sketch in enumerate(sketches)}
    length = np.array([len(sketch.count) for sketch in sketches], dtype=np.int64)
    return StepTable(
        sketches=tuple(sketches),
        start=np.cumsum(length) - length,
        length=length,
        rows=_gathered(sketches, sketch_rows, np.float32).reshape(-1, len(ROW_COLUMNS)),
        flops=_gathered(sketches, lambda s: s.flops),
        traffic_bytes=_gathered(sketches, lambda s: s.traffic_bytes),
        fused_bytes=_gathered(sketches, lambda s: s.fused_bytes),
        fused_launch=_gathered(sketches, lambda s: s.fused_launch),
        count=_gathered(sketches, lambda s: s.count),
        log_output=_gathered(sketches, lambda s: s.column("log_output")),
        op_class=_gathered(sketches, lambda s: s.op_class, np.int64),
        sort=_gathered(sketches, row_sorts, np.int64),
        matrix=_gathered(sketches, lambda s: s.matrix, np.bool_),
        wide=_gathered(sketches, lambda s: s.static[:, _ITEM]) >= _WIDE_ITEM_BYTES,
        slow_work=_gathered(sketches, slow_path_work).reshape(-1, len(SLOW_PATHS)),
        sketch_of=np.array([place[id(step.sketch)] for step in steps], dtype=np.int64),
        peaks=np.array([step_peaks(step, as_stated=as_stated) for step in steps]).reshape(-1, 7),
        boost=np.array([1.0 / _lasting(step.accelerator, as_stated=as_stated) for step in steps]),
        slow_rates=np.array([_slow_rates(step) for step in steps]).reshape(-1, len(SLOW_PATHS)),
        reuse=_gathered(sketches, reuse_of_rows).reshape(-1, 2),
        cache=np.array([cache_of(step.accelerator) for step in steps]).reshape(-1, 2),
        settings=np.array([step_settings(s) for s in steps], dtype=np.float32).reshape(
            -1, len(SETTING_COLUMNS)
        ),
        facts=np.array([device_facts(s.accelerator) for s in steps], dtype=np.float32).reshape(
            -1, len(DEVICE_FACTS)
        ),
        devices=tuple(step.accelerator.name for step in steps),
    )


def _gathered(
    sketches: Sequence[StepSketch],
    column: Callable[[StepSketch], npt.ArrayLike],
    kind: type[np.generic] = np.float64,
) -> npt.NDArray[Any]:
    if not sketches:
        return np.zeros(0, dtype=kind)
    return np.concatenate([np.asarray(column(sketch)) for sketch in sketches]).astype(
        kind, copy=False
    )


def sketch_rows(sketch: StepSketch) -> npt.NDArray[np.float32]:
    """Return the device-free columns of every row of a sketch, see :data:`ROW_COLUMNS`."""
    remainders = np.stack([sketch.column(name) for name in _ALIGNED], axis=1)
    works = sketch.flops > 0
    aligned = [
        (np.mod(remainders[:, i], by) == 0) & works
        for i in range(len(_ALIGNED))
        for by in _ALIGNMENTS
    ]
    return np.concatenate(
        [
            sketch.static[:, _KEPT],
            sketch.neighbours,
            np.log2(1.0 + sketch.fused_bytes)[:, None],
            sketch.fused_launch[:, None],
            np.stack(aligned, axis=1).astype(np.float32),
        ],
        axis=1,
    ).astype(np.float32)


def row_memory_s(table: StepTable, row: IntArray, step: IntArray) -> FloatArray:
    """Return how long the traffic of some rows takes, each in a step of the table, seconds."""
    moved = np.where(table.fused[step], table.fused_bytes[row], table.traffic_bytes[row])
    return memory_time_s(moved, table.peaks[step, 3], table.reuse[row].T, table.cache[step].T)


def _lasting(spec: AcceleratorSpec, *, as_stated: bool) -> float:
    """Return the share of the peak arithmetic that lasts, as stated or as it is reached."""
    return spec.sustained_share if as_stated else lasting_share(spec) * arithmetic_share(spec)


def step_peaks(step: Step, *, as_stated: bool = False) -> list[float]:
    """Return the rates at which a step can last, as for :func:`step_table`."""
    spec, precision = step.accelerator, step.precision
    lasting = _lasting(spec, as_stated=as_stated)
    share = device_share(step.accelerator, step.threads) * lasting
    narrow = spec.flops_per_s(precision, Engine.MATRIX)
    wide = narrow
    if precision not in (Precision.FP32, Precision.TF32):
        wide = spec.flops_per_s(Precision.FP32, Engine.MATRIX)
    return [
        narrow * share * spec.reachable_share(precision),
        wide * share,
        spec.flops_per_s(Precision.FP32, Engine.VECTOR) * share,
        spec.bandwidth_bytes_per_s * (1.0 if as_stated else stream_share(spec)),
        spec.cache_bytes or 1e6,
        (spec.core_count or 1) * device_share(step.accelerator, step.threads),
        (spec.clock_hz or 1.5e9) * lasting,
    ]


def _slow_rates(step: Step) -> list[float]:
    fused = step.compiler in FUSING
    return slow_path_rates(
        gpu=step.accelerator.kind == "gpu",
        fused=fused,
        torch_version=torch_version(step.software),
        bandwidth_bytes_per_s=step.accelerator.bandwidth_bytes_per_s,
        parts_bytes=bytes_of_parts(step.precision, step.software, fused=fused),
    )


def step_settings(step: Step) -> list[float]:
    """Return what the settings of a step say, see :data:`SETTING_COLUMNS`."""
    precision = step.precision
    version = torch_version(step.software)
    framework = Framework.of(step.software)
    return [
        float(step.mode is Mode.TRAINING),
        float(step.memory_format is MemoryFormat.CHANNELS_LAST),
        float(precision in (Precision.FP32, Precision.TF32)),
        float(precision.is_autocast),
        float(precision in (Precision.BF16, Precision.AMP_BF16)),
        float(precision is Precision.INT8),
        float(step.compiler in FUSING),
        float(step.compiler is Compiler.ONNXRUNTIME),
        float(step.accelerator.kind == "cpu"),
        (version - TYPICAL_TORCH),
        float(version < 2.0),
        float(step.alone),
        float(framework is Framework.TENSORFLOW),
        float(framework not in (Framework.PYTORCH, Framework.TENSORFLOW)),
    ]


def device_facts(spec: AcceleratorSpec) -> list[float]:
    """Return the facts of a device that tell devices of one kind apart.

    Each is a natural logarithm of a ratio to a typical value, 0 where the fact is unknown, or says
    whether something is so. GPUs of AMD have other libraries: without a fact for that, their high
    clocks are taken for the reason why they are slower than their peaks say.
    """
    matrix = spec.flops_per_s(Precision.AMP_FP16, Engine.MATRIX)
    vector = spec.flops_per_s(Precision.FP32, Engine.VECTOR)
    cpu = spec.kind == "cpu"
    per_watt = matrix / spec.tdp_w / 0.5e12 if spec.tdp_w and not cpu else 1.0
    return [
        0.0 if cpu else float(np.log(matrix / vector / 6.0)),
        float(np.log(per_watt)),
        0.0 if cpu else float(np.log(matrix / spec.bandwidth_bytes_per_s / 150.0)),
        0.0 if cpu or not spec.core_count else float(np.log(spec.core_count / 90.0)),
        0.0 if cpu or not spec.clock_hz else float(np.log(spec.clock_hz / 1.8e9)),
        float(cpu),
        float(spec.kind == "gpu" and spec.vendor == "AMD"),
    ]


def step_bounds_s(table: StepTable) -> FloatArray:
    """Return the time that no step can beat, shape (steps,): its arithmetic at the peaks.

    Convolutions are granted the fewest multiplications of Winograd's algorithm for 3 x 3 filters,
    ``F(4 x 4, 3 x 3)``: a quarter (Lavin and Gray, "Fast algorithms for convolutional neural
    networks", 2016). Traffic does not count: what one operator writes and the next one reads
    need not reach the memory.
    """
    length = table.length[table.sketch_of]
    before = np.cumsum(length) - length
    row = np.repeat(table.start[table.sketch_of] - before, length)
    row = row + np.arange(int(length.sum()))
    step = np.repeat(np.arange(len(length)), length)
    peaks = table.peaks[step] * table.boost[step, None]
    matrix = np.where(table.wide[row], peaks[:, 1], peaks[:, 0])
    compute = table.flops[row] / np.where(table.matrix[row], matrix, peaks[:, 2])
    compute = np.where(table.op_class[row] == _CONVOLUTION, compute / _WINOGRAD, compute)
    total = np.bincount(step, weights=compute * table.count[row], minlength=len(length))
    return np.asarray(total, dtype=np.float64)
