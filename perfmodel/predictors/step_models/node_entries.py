"""Steps of a table laid out for networks: an entry for every row of every step.

What the device makes of an entry stands here: roofline time, calls, what slow paths cost. Nothing
of it is learned, so that networks that learn and those that answer begin with the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import IntArray
from perfmodel.features.steps.memory_time import memory_time_s
from perfmodel.features.steps.row_sorts import ROW_SORTS
from perfmodel.features.steps.step_table import ROW_COLUMNS, SETTING_COLUMNS, StepTable

EFFECTS = 3  # contraction, traffic, launch
LAUNCH = 2
RATE_COLUMNS = 8
#: Pairs of settings whose product says more than their sum: which kernels a release has for a
#: layout, and what a compiler of a release fuses.
PRODUCTS = tuple(
    (SETTING_COLUMNS.index(one), SETTING_COLUMNS.index(other))
    for one, other in (
        ("channels_last", "training"),
        ("channels_last", "fused"),
        ("channels_last", "before_torch_2"),
        ("fused", "torch_version"),
    )
)

_TICK_S = 1e-9
_TILE = 128.0
#: Columns of ``row_facts``: flops, traffic, traffic and launches when fused, tiles, output, matrix,
#: wide; then the number of equal nodes, what is used again, and what slow paths have to do.
_COUNT = 8
_REUSE = slice(9, 11)
_SLOW_WORK = slice(11, None)
#: Columns of ``step_facts``: rates of narrow, wide and vector arithmetic, bandwidth, cores, clock,
#: fused; then the cache, and the rates of slow paths.
_FACTS_OF_STEP = 7
_CACHE = slice(7, 9)
_SLOW_RATES = slice(9, None)
_GEMM = tuple(ROW_COLUMNS.index(f"log_gemm_{x}") for x in ("batch", "m", "n"))

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class TableArrays:
    """What networks look at of a StepTable, in their precision.

    What the arithmetic of an entry looks at lies in two matrices, so that it is gathered at once:
    ``row_facts``, shape (columns, rows), and ``step_facts``, shape (columns, steps).
    """

    start: IntArray
    length: IntArray
    rows: Float32Array
    row_facts: Float32Array
    step_facts: Float32Array
    kind: IntArray
    sort: IntArray
    settings: Float32Array
    facts: Float32Array

    @classmethod
    def of(cls, table: StepTable) -> TableArrays:
        """Convert a table."""
        return cls(
            start=table.start,
            length=table.length,
            rows=table.rows,
            row_facts=_stacked(
                table.flops, table.traffic_bytes, table.fused_bytes, table.fused_launch,
                _tiles(table), table.log_output, table.matrix, table.wide, table.count,
                *table.reuse.T, *table.slow_work.T,
            ),
            step_facts=_stacked(
                *table.peaks[:, [0, 1, 2, 3, 5, 6]].T, table.fused, *table.cache.T,
                *table.slow_rates.T,
            ),
            kind=np.where(table.matrix, 0, 1).astype(np.int64),
            sort=table.sort,
            settings=table.settings,
            facts=table.facts,
        )  # fmt: skip


def _stacked(*columns: npt.NDArray[Any]) -> Float32Array:
    return np.stack([np.asarray(one, dtype=np.float32) for one in columns])


def _tiles(table: StepTable) -> npt.NDArray[np.float64]:
    """Return the tiles of the product in each row; 0 where there is none."""
    extents = np.exp2(table.rows[:, _GEMM].astype(np.float64)) - 1.0
    tiles = extents[:, 0].clip(1) * np.ceil(extents[:, 1:] / _TILE).clip(1).prod(axis=1)
    return np.asarray(np.where(extents[:, 1] > 0, tiles, 0.0))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some steps, in order of their sketches.

    Parameters
    ----------
    sketches : ndarray of int64
        Sketches of the table.
    steps : ndarray of int64
        Steps of the table.
    place : ndarray of int64, shape (steps,)
        Position in ``sketches`` of the sketch of each step.
    """

    sketches: IntArray
    steps: IntArray
    place: IntArray


def batches(sketch_of: IntArray, steps: IntArray, size: int, order: IntArray) -> list[Batch]:
    """Split steps into batches of about ``size``, all steps of one sketch together.

    Parameters
    ----------
    sketch_of : ndarray of int64
        Sketch of every step of the table.
    order : ndarray of int64
        Position of every sketch of the table in the order of the batches.
    """
    if not len(steps):
        return []
    rank = order[sketch_of[steps]]
    arranged = steps[np.argsort(rank, kind="stable")]
    sketches = sketch_of[arranged]
    first = np.flatnonzero(np.concatenate([[True], sketches[1:] != sketches[:-1]]))
    ends = np.append(first[1:], len(arranged))
    found: list[Batch] = []
    begin = 0
    while begin < len(first):
        end = int(np.searchsorted(ends, first[begin] + size))
        end = min(max(end + 1, begin + 1), len(first))
        chosen = arranged[first[begin] : ends[end - 1]]
        place = np.repeat(np.arange(end - begin), ends[begin:end] - first[begin:end])
        found.append(
            Batch(sketches=sketches[first[begin:end]], steps=chosen, place=place.astype(np.int64))
        )
        begin = end
    return found


@dataclass(frozen=True, kw_only=True)
class Alike:
    """The steps of a batch that share a sketch: their entries are (steps, rows) in order."""

    rows: slice
    steps: slice
    entries: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Number of steps and of rows."""
        return self.steps.stop - self.steps.start, self.rows.stop - self.rows.start


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The rows of every step of a batch, and all of them that no network has learned.

    Parameters
    ----------
    steps : ndarray of int64, shape (steps,)
        Steps of the table.
    rows : ndarray of float32, shape (rows of the batch, len(ROW_COLUMNS))
        Rows of the sketches.
    lengths : ndarray of int64, shape (sketches,)
        Rows of each sketch of the batch.
    counts : ndarray of int64, shape (sketches,)
        Steps of each.
    row, step : ndarray of int64, shape (entries,)
        Position in ``rows`` and in ``steps`` of each entry.
    rates : ndarray of float32, shape (entries, RATE_COLUMNS)
        What the device makes of each entry.
    roofline_s, launches, slow_s, count : ndarray of float32, shape (entries,)
    of_kind, of_sort : ndarray of int64, shape (entries,)
        Positions in tables of (steps, effects) and (steps, sorts of rows).
    settings, facts, products : ndarray of float32, shape (steps, ...)
    """

    steps: IntArray
    rows: Float32Array
    lengths: IntArray
    counts: IntArray
    row: IntArray
    step: IntArray
    rates: Float32Array
    roofline_s: Float32Array
    launches: Float32Array
    slow_s: Float32Array
    count: Float32Array
    of_kind: IntArray
    of_sort: IntArray
    settings: Float32Array
    facts: Float32Array
    products: Float32Array

    @classmethod
    def of(cls, t: TableArrays, batch: Batch) -> Entries:
        """Lay a batch out."""
        length = t.length[batch.sketches]
        of_table = _ranges(t.start[batch.sketches], length)
        lengths = length[batch.place]
        row = _ranges((np.cumsum(length) - length)[batch.place], lengths)
        step = np.repeat(np.arange(len(batch.place)), lengths)
        place = of_table[row]
        of_entry = t.row_facts[:, place]
        of_step = t.step_facts[:, batch.steps[step]]
        rates, roofline, launches = _rates(of_entry, of_step)
        settings = t.settings[batch.steps]
        return cls(
            steps=batch.steps,
            rows=t.rows[of_table],
            lengths=length,
            counts=np.bincount(batch.place, minlength=len(length)),
            row=row,
            step=step,
            rates=rates,
            roofline_s=roofline,
            launches=launches,
            slow_s=(of_entry[_SLOW_WORK] * of_step[_SLOW_RATES]).sum(axis=0),
            count=of_entry[_COUNT],
            of_kind=step * EFFECTS + t.kind[place],
            of_sort=step * len(ROW_SORTS) + t.sort[place],
            settings=settings,
            facts=t.facts[batch.steps],
            products=np.stack([settings[:, one] * settings[:, two] for one, two in PRODUCTS], 1),
        )

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """The steps of each sketch."""
        rows = np.append(0, np.cumsum(self.lengths)).tolist()
        steps = np.append(0, np.cumsum(self.counts)).tolist()
        entries = np.append(0, np.cumsum(self.lengths * self.counts)).tolist()
        return tuple(
            Alike(
                rows=slice(rows[i], rows[i + 1]),
                steps=slice(steps[i], steps[i + 1]),
                entries=slice(entries[i], entries[i + 1]),
            )
            for i in range(len(self.lengths))
        )


def _ranges(start: IntArray, length: IntArray) -> IntArray:
    """Concatenate ``start[i] .. start[i] + length[i]``."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))


def _rates(
    of_row: Float32Array, of_step: Float32Array
) -> tuple[Float32Array, Float32Array, Float32Array]:
    """Return what the device makes of each entry, for the network, its roofline time and calls."""
    flops, traffic, fused_traffic, fused_launch, tiles, log_output, matrix, wide = of_row[:_COUNT]
    narrow_rate, wide_rate, vector_rate, bandwidth, cores, clock, fused = of_step[:_FACTS_OF_STEP]
    on_matrix, fuses, none = matrix > 0, fused > 0, np.float32(0.0)
    matrix_rate = np.where(wide > 0, wide_rate, narrow_rate)
    compute = flops / np.where(on_matrix, matrix_rate, vector_rate)
    moved = np.where(fuses, fused_traffic, traffic)
    memory = memory_time_s(moved, bandwidth, of_row[_REUSE], of_step[_CACHE])
    roofline = np.maximum(np.maximum(compute, memory), np.float32(_TICK_S))
    log_compute, log_memory = np.log2(compute + _TICK_S), np.log2(memory + _TICK_S)
    launches = np.where(fuses, fused_launch, np.float32(1.0))
    waves = tiles / cores
    filled = waves / np.maximum(np.ceil(waves), np.float32(1.0))
    columns = [
        (log_compute + 20.0) / 5.0,
        (log_memory + 20.0) / 5.0,
        (np.log2(roofline) + 17.0) / 5.0,
        (log_compute - log_memory) / 5.0,
        (log_output - np.log2(cores) - 10.0) / 5.0,
        fused * launches,
        np.where(on_matrix, np.log2(matrix_rate / cores / clock / 1024.0), none),
        np.where(waves > 0, np.log2(waves + 1e-3) / 5.0 + filled, none),
    ]
    return np.stack(columns, axis=1), roofline, launches
