r"""The network under the joint predictor: one efficiency per row, added up to a step.

For row i of a step s on device d, with k(i) the kind of work of the row::

    t_s = sum_i  c_i (r_i exp(e_i + u_{d,k(i)} + v_s S_{j(i)}) + l_i exp(o_i + u_{d,launch}) + x_i)
    (e_i, o_i) = MLP(row_i, neighbourhood_i, rates of d at i, settings of s)

``c_i`` counts equal nodes, ``r_i`` is the roofline time of the row and ``l_i`` the calls it needs
(a part of one inside a fused kernel), each of ``LAUNCH_S``. ``x_i`` is what a slow path costs
(:mod:`perfmodel.features.steps.slow_paths`). ``u_d`` are the effects of a device:
learned for a device with records, regressed on the facts of the device for all others; records
of operators alone teach those of contraction and traffic, not that of launches. ``v_s``
are the settings with some of their products, and S what they do to rows of the sort j. The
neighbourhood enters as shares of what a node reads and of who reads it, one hop of message
passing with fixed weights; whole-step times train row efficiencies through the sum.

Needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from perfmodel.features.arrays import IntArray
from perfmodel.features.steps.row_sorts import ROW_SORTS
from perfmodel.features.steps.step_table import (
    DEVICE_FACTS,
    ROW_COLUMNS,
    SETTING_COLUMNS,
    StepTable,
)

#: What one call costs where nothing is learned yet, seconds.
LAUNCH_S = 1e-6
EFFECTS = 3  # contraction, traffic, launch
LAUNCH = 2
RATE_COLUMNS = 8

_TICK_S = 1e-9
#: Pairs of settings whose product says more than their sum: which kernels a release has for a
#: layout, and what a compiler of a release fuses.
_PRODUCTS = tuple(
    (SETTING_COLUMNS.index(one), SETTING_COLUMNS.index(other))
    for one, other in (
        ("channels_last", "training"),
        ("channels_last", "fused"),
        ("channels_last", "before_torch_2"),
        ("fused", "torch_version"),
    )
)
_ALONE = SETTING_COLUMNS.index("alone")
_OF_LAUNCH = torch.eye(EFFECTS)[LAUNCH]
#: Which columns of _rates tell devices apart, and how much of the blur each takes.
_BLURRED = torch.tensor([0.2, 0.2, 0.2, 0.5, 1.0, 0.0, 0.5, 0.5])
_LIMIT = 8.0  # of standardised inputs
_TILE = 128.0
#: Columns of ``row_facts``: flops, traffic, traffic and launches when fused, tiles, output, matrix,
#: wide; then the number of equal nodes and what slow paths have to do.
_COUNT = 8
_SLOW_WORK = slice(9, None)
#: Columns of ``step_facts``: rates of narrow, wide and vector arithmetic, bandwidth, cores, clock,
#: fused; then the rates of slow paths.
_FACTS_OF_STEP = 7
_SLOW_RATES = slice(7, None)
_GEMM = tuple(ROW_COLUMNS.index(f"log_gemm_{x}") for x in ("batch", "m", "n"))


@dataclass(frozen=True, kw_only=True)
class TableTensors:
    """A StepTable as tensors, inputs standardised.

    What the arithmetic of an entry (a row in a step) looks at lies in two matrices, so that it
    is gathered at once: ``row_facts``, shape (columns, rows), and ``step_facts``, shape
    (columns, steps).
    """

    start: torch.Tensor
    length: torch.Tensor
    rows: torch.Tensor
    row_facts: torch.Tensor
    step_facts: torch.Tensor
    kind: torch.Tensor
    sort: torch.Tensor
    settings: torch.Tensor
    facts: torch.Tensor

    @classmethod
    def of(cls, table: StepTable, mean: torch.Tensor, scale: torch.Tensor) -> TableTensors:
        """Convert a table; rows are standardised with the statistics of training."""
        return cls.unscaled(table).standardised(mean, scale)

    def standardised(self, mean: torch.Tensor, scale: torch.Tensor) -> TableTensors:
        """Return the same with rows in the measure of one network."""
        rows = self.rows - mean
        return replace(self, rows=rows.div_(scale).clamp_(-_LIMIT, _LIMIT))

    @classmethod
    def unscaled(cls, table: StepTable) -> TableTensors:
        """Convert a table, its rows as they are."""
        return cls(
            start=torch.from_numpy(table.start),
            length=torch.from_numpy(table.length),
            rows=torch.from_numpy(table.rows),
            row_facts=_stacked(
                table.flops, table.traffic_bytes, table.fused_bytes, table.fused_launch,
                _tiles(table), table.log_output, table.matrix, table.wide, table.count,
                *table.slow_work.T,
            ),
            step_facts=_stacked(
                *table.peaks[:, [0, 1, 2, 3, 5, 6]].T, table.fused, *table.slow_rates.T
            ),
            kind=torch.from_numpy(np.where(table.matrix, 0, 1).astype(np.int64)),
            sort=torch.from_numpy(table.sort),
            settings=torch.from_numpy(table.settings),
            facts=torch.from_numpy(table.facts),
        )  # fmt: skip


def _stacked(*columns: npt.NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.stack([np.asarray(one, dtype=np.float32) for one in columns]))


def _tiles(table: StepTable) -> npt.NDArray[np.float64]:
    """Return the tiles of the product in each row; 0 where there is none."""
    extents = np.exp2(table.rows[:, _GEMM].astype(np.float64)) - 1.0
    tiles = extents[:, 0].clip(1) * np.ceil(extents[:, 1:] / _TILE).clip(1).prod(axis=1)
    return np.asarray(np.where(extents[:, 1] > 0, tiles, 0.0))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some steps of a table, grouped by sketch.

    Parameters
    ----------
    sketches : ndarray of int64, shape (sketches,)
        Which sketches of the table.
    place : ndarray of int64, shape (steps,)
        Position of the sketch of each step in ``sketches``.
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
class Entries:
    """The rows of every step of a batch, and all of them that no network has learned.

    Parameters
    ----------
    rows : Tensor of int64, shape (rows of the batch,)
        Rows of the table.
    entry : Tensor of int64, shape (entries,)
        Position in ``rows`` of each entry.
    step, row : Tensor of int64, shape (entries,)
        As of :class:`RowTimes`.
    chosen : Tensor of int64, shape (steps,)
        Steps of the table.
    rates : Tensor, shape (entries, RATE_COLUMNS)
        What the device makes of each entry.
    roofline_s, launches, slow_s, count : Tensor, shape (entries,)
    kind : Tensor of int64, shape (entries,)
    of_kind, of_sort : Tensor of int64, shape (entries,)
        Positions in tables of (steps, effects) and (steps, sorts of rows).
    settings, facts, products : Tensor, shape (steps, ...)
    """

    rows: torch.Tensor
    entry: torch.Tensor
    step: torch.Tensor
    row: torch.Tensor
    chosen: torch.Tensor
    rates: torch.Tensor
    roofline_s: torch.Tensor
    launches: torch.Tensor
    slow_s: torch.Tensor
    count: torch.Tensor
    kind: torch.Tensor
    of_kind: torch.Tensor
    of_sort: torch.Tensor
    settings: torch.Tensor
    facts: torch.Tensor
    products: torch.Tensor

    @classmethod
    def of(cls, t: TableTensors, batch: Batch) -> Entries:
        """Lay a batch out."""
        sketches = torch.from_numpy(batch.sketches)
        place = torch.from_numpy(batch.place)
        chosen = torch.from_numpy(batch.steps)
        length = t.length[sketches]
        begin = torch.cumsum(length, 0) - length
        rows = _ranges(t.start[sketches], length)
        lengths = length[place]
        entry = _ranges(begin[place], lengths)
        step = torch.repeat_interleave(torch.arange(len(place)), lengths)
        row = rows.index_select(0, entry)
        of_entry = t.row_facts.index_select(1, row)
        of_step = t.step_facts.index_select(1, chosen).index_select(1, step)
        rates, roofline, launches = _rates(of_entry, of_step)
        settings, kind = t.settings[chosen], t.kind.index_select(0, row)
        return cls(
            rows=rows,
            entry=entry,
            step=step,
            row=row,
            chosen=chosen,
            rates=rates,
            roofline_s=roofline,
            launches=launches,
            slow_s=(of_entry[_SLOW_WORK] * of_step[_SLOW_RATES]).sum(dim=0),
            count=of_entry[_COUNT],
            kind=kind,
            of_kind=step * EFFECTS + kind,
            of_sort=step * len(ROW_SORTS) + t.sort.index_select(0, row),
            settings=settings,
            facts=t.facts[chosen],
            products=_products(settings),
        )


@dataclass(frozen=True, kw_only=True)
class RowTimes:
    """Times of the rows of some steps.

    Parameters
    ----------
    step : Tensor of int64, shape (entries,)
        Position in the batch of the step of each entry.
    row : Tensor of int64, shape (entries,)
        Row of the table.
    work_s, launch_s : Tensor, shape (entries,)
        All equal nodes of the row together.
    kind : Tensor of int64, shape (entries,)
    """

    step: torch.Tensor
    row: torch.Tensor
    work_s: torch.Tensor
    launch_s: torch.Tensor
    kind: torch.Tensor


class NodeNetwork(nn.Module):
    """Efficiencies of rows and effects of devices.

    Parameters
    ----------
    devices : int
        Devices with effects of their own; number ``devices`` stands for all others.
    settings, facts : int
        How many of ``SETTING_COLUMNS`` and ``DEVICE_FACTS``, from the first on, it looks at.
    """

    def __init__(
        self,
        devices: int,
        *,
        wide: int = 96,
        narrow: int = 48,
        settings: int = len(SETTING_COLUMNS),
        facts: int = len(DEVICE_FACTS),
    ) -> None:
        super().__init__()
        self.devices = devices
        self.settings, self.facts = settings, facts
        self.row = nn.Linear(len(ROW_COLUMNS), wide)
        self.rate = nn.Linear(RATE_COLUMNS, wide, bias=False)
        self.setting = nn.Linear(settings, wide, bias=False)
        self.fact = nn.Linear(facts, wide, bias=False)
        self.hidden = nn.Linear(wide, narrow)
        self.output = nn.Linear(narrow, 2)
        self.effect = nn.Parameter(torch.zeros(devices + 1, EFFECTS))
        # Of a device without records: fitted after training, see EffectFacts.
        self.register_buffer("typical_effect", torch.zeros(EFFECTS))
        self.register_buffer("by_fact", torch.zeros(facts, EFFECTS))
        self.by_setting = nn.Parameter(torch.zeros(settings, EFFECTS))
        self.by_sort = nn.Parameter(torch.zeros(settings + len(_PRODUCTS), len(ROW_SORTS)))
        nn.init.normal_(self.output.weight, 0.0, 0.01)
        with torch.no_grad():
            self.output.bias[:] = torch.tensor([0.5, 1.0])

    typical_effect: torch.Tensor
    by_fact: torch.Tensor

    def row_times(
        self,
        t: TableTensors,
        batch: Batch,
        device: torch.Tensor,
        *,
        blur: float = 0.0,
        entries: Entries | None = None,
    ) -> RowTimes:
        """Return the time of every row of every step of a batch.

        Parameters
        ----------
        device : Tensor of int64, shape (steps of the batch,)
        blur : float
            Standard deviation of the noise on what would give a device away (cores and caches);
            for training alone. What is peculiar to a device then has to go into its effects.
        entries : Entries or None
            Those of the batch, where another network was asked about it before.
        """
        e = entries or Entries.of(t, batch)
        of_row = self.row(t.rows.index_select(0, e.rows))
        rates, facts = e.rates, e.facts[:, : self.facts]
        if blur:
            noise = blur * torch.randn(len(batch.place), RATE_COLUMNS) * _BLURRED
            rates = rates + noise.index_select(0, e.step)
            facts = facts + blur * torch.randn(facts.shape)
        settings = e.settings[:, : self.settings]
        whole = self.setting(settings) + self.fact(facts)
        hidden = of_row.index_select(0, e.entry) + self.rate(rates)
        hidden = hidden + whole.index_select(0, e.step)
        answer = self.output(torch.relu(self.hidden(torch.relu(hidden))))
        effects = self._effects(e, device)
        effect = effects.reshape(-1).index_select(0, e.of_kind)
        products = torch.cat([settings, e.products], dim=1)
        of_sort = (products @ self.by_sort).reshape(-1).index_select(0, e.of_sort)
        work = e.roofline_s * torch.exp((answer[:, 0] + effect + of_sort).clamp(-4.0, 7.0))
        work = work + e.slow_s
        calls = answer[:, 1] + effects[:, LAUNCH].index_select(0, e.step)
        launch = LAUNCH_S * torch.exp(calls.clamp(-4.0, 6.0)) * e.launches
        return RowTimes(
            step=e.step, row=e.row, work_s=work * e.count, launch_s=launch * e.count, kind=e.kind
        )

    def _effects(self, e: Entries, device: torch.Tensor) -> torch.Tensor:
        """Return the effects of device and settings, shape (steps, EFFECTS)."""
        unknown = (device >= self.devices)[:, None]
        typical = self.typical_effect + e.facts[:, : self.facts] @ self.by_fact
        own = torch.where(unknown, typical, self.effect[device])
        # How fast the host of a device calls says nothing of an operator that is repeated.
        own = own * (1.0 - e.settings[:, _ALONE, None] * _OF_LAUNCH)
        return own + e.settings[:, : self.settings] @ self.by_setting

    def keep_devices(self, devices: int) -> None:
        """Forget the effects of all devices but the first ones."""
        self.effect = nn.Parameter(torch.cat([self.effect[:devices], self.effect[-1:]]).detach())
        self.devices = devices

    def forward(
        self, t: TableTensors, batch: Batch, device: torch.Tensor, *, blur: float = 0.0
    ) -> torch.Tensor:
        """Return the logarithm of the time of every step of a batch."""
        times = self.row_times(t, batch, device, blur=blur)
        total = torch.zeros(len(batch.steps))
        total = total.index_add_(0, times.step, times.work_s + times.launch_s)
        return torch.log(total.clamp_min(_TICK_S))


def _products(settings: torch.Tensor) -> torch.Tensor:
    return torch.stack([settings[:, one] * settings[:, other] for one, other in _PRODUCTS], dim=1)


def _ranges(start: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Concatenate ``start[i] .. start[i] + length[i]``."""
    before = torch.cumsum(length, 0) - length
    return torch.repeat_interleave(start - before, length) + torch.arange(int(length.sum()))


def _rates(
    of_row: torch.Tensor, of_step: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what the device makes of each entry, for the network, its roofline time and calls."""
    flops, traffic, fused_traffic, fused_launch, tiles, log_output, matrix, wide = of_row[:_COUNT]
    narrow_rate, wide_rate, vector_rate, bandwidth, cores, clock, fused = of_step[:_FACTS_OF_STEP]
    on_matrix, fuses, none = matrix > 0, fused > 0, torch.zeros(())
    matrix_rate = torch.where(wide > 0, wide_rate, narrow_rate)
    compute = flops / torch.where(on_matrix, matrix_rate, vector_rate)
    memory = torch.where(fuses, fused_traffic, traffic) / bandwidth
    roofline = torch.maximum(compute, memory).clamp_min(_TICK_S)
    log_compute, log_memory = torch.log2(compute + _TICK_S), torch.log2(memory + _TICK_S)
    launches = torch.where(fuses, fused_launch, torch.ones(()))
    waves = tiles / cores
    filled = waves / torch.ceil(waves).clamp_min(1.0)
    columns = [
        (log_compute + 20.0) / 5.0,
        (log_memory + 20.0) / 5.0,
        (torch.log2(roofline) + 17.0) / 5.0,
        (log_compute - log_memory) / 5.0,
        (log_output - torch.log2(cores) - 10.0) / 5.0,
        fused * launches,
        torch.where(on_matrix, torch.log2(matrix_rate / cores / clock / 1024.0), none),
        torch.where(waves > 0, torch.log2(waves + 1e-3) / 5.0 + filled, none),
    ]
    return torch.stack(columns, dim=1), roofline, launches
