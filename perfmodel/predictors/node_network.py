r"""The network under the joint predictor: one efficiency per row, added up to a step.

For row i of a step s on device d, with k(i) the kind of work of the row::

    t_s = sum_i  c_i (r_i exp(e_i + u_{d,k(i)} + v_s S_{j(i)}) + l_i exp(o_i + u_{d,launch}) + x_i)
    (e_i, o_i) = MLP(row_i, neighbourhood_i, rates of d at i, settings of s)

``c_i`` counts equal nodes, ``r_i`` is the roofline time of the row and ``l_i`` the calls it needs
(a part of one inside a fused kernel), each of ``LAUNCH_S``. ``x_i`` is what a slow path costs
(:mod:`perfmodel.features.slow_paths`). ``u_d`` are the effects of a device:
learned for a device with records, regressed on the facts of the device for all others; records
of operators alone teach those of contraction and traffic, not that of launches. ``v_s``
are the settings with some of their products, and S what they do to rows of the sort j. The
neighbourhood enters as shares of what a node reads and of who reads it, one hop of message
passing with fixed weights; whole-step times train row efficiencies through the sum.

Needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from perfmodel.features.row_sorts import ROW_SORTS
from perfmodel.features.step_table import (
    DEVICE_FACTS,
    ROW_COLUMNS,
    SETTING_COLUMNS,
    StepTable,
)

IntArray = npt.NDArray[np.int64]

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
_GEMM = tuple(ROW_COLUMNS.index(f"log_gemm_{x}") for x in ("batch", "m", "n"))


@dataclass(frozen=True, kw_only=True)
class TableTensors:
    """A StepTable as tensors, inputs standardised."""

    start: torch.Tensor
    length: torch.Tensor
    rows: torch.Tensor
    tiles: torch.Tensor
    flops: torch.Tensor
    traffic: torch.Tensor
    fused_traffic: torch.Tensor
    fused_launch: torch.Tensor
    count: torch.Tensor
    log_output: torch.Tensor
    kind: torch.Tensor
    matrix: torch.Tensor
    wide: torch.Tensor
    slow_work: torch.Tensor
    slow_rates: torch.Tensor
    peaks: torch.Tensor
    settings: torch.Tensor
    facts: torch.Tensor
    fused: torch.Tensor
    sort: torch.Tensor

    @classmethod
    def of(cls, table: StepTable, mean: torch.Tensor, scale: torch.Tensor) -> TableTensors:
        """Convert a table; rows are standardised with the statistics of training."""
        f32 = np.float32
        rows = torch.from_numpy(table.rows)
        extents = np.exp2(table.rows[:, _GEMM].astype(np.float64)) - 1.0
        tiles = extents[:, 0].clip(1) * np.ceil(extents[:, 1:] / _TILE).clip(1).prod(axis=1)
        return cls(
            start=torch.from_numpy(table.start),
            length=torch.from_numpy(table.length),
            rows=((rows - mean) / scale).clamp(-_LIMIT, _LIMIT),
            tiles=torch.from_numpy(np.where(extents[:, 1] > 0, tiles, 0.0).astype(f32)),
            flops=torch.from_numpy(table.flops.astype(f32)),
            traffic=torch.from_numpy(table.traffic_bytes.astype(f32)),
            fused_traffic=torch.from_numpy(table.fused_bytes.astype(f32)),
            fused_launch=torch.from_numpy(table.fused_launch.astype(f32)),
            count=torch.from_numpy(table.count.astype(f32)),
            log_output=torch.from_numpy(table.log_output.astype(f32)),
            kind=torch.from_numpy(np.where(table.matrix, 0, 1).astype(np.int64)),
            matrix=torch.from_numpy(table.matrix),
            wide=torch.from_numpy(table.wide),
            slow_work=torch.from_numpy(table.slow_work.astype(f32)),
            slow_rates=torch.from_numpy(table.slow_rates.astype(f32)),
            peaks=torch.from_numpy(table.peaks.astype(f32)),
            settings=torch.from_numpy(table.settings),
            facts=torch.from_numpy(table.facts),
            fused=torch.from_numpy(table.fused),
            sort=torch.from_numpy(table.sort),
        )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some steps of a table, grouped by sketch.

    Parameters
    ----------
    sketches : ndarray of int64, shape (sketches,)
        Which sketches of the table.
    steps : ndarray of int64, shape (steps,)
        Which steps.
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
    steps : ndarray of int64
        Which steps to split.
    size : int
        Steps a batch.
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
    wide, narrow : int
        Widths of the two hidden layers.
    """

    def __init__(self, devices: int, *, wide: int = 96, narrow: int = 48) -> None:
        super().__init__()
        self.devices = devices
        self.row = nn.Linear(len(ROW_COLUMNS), wide)
        self.rate = nn.Linear(RATE_COLUMNS, wide, bias=False)
        self.setting = nn.Linear(len(SETTING_COLUMNS), wide, bias=False)
        self.fact = nn.Linear(len(DEVICE_FACTS), wide, bias=False)
        self.hidden = nn.Linear(wide, narrow)
        self.output = nn.Linear(narrow, 2)
        self.effect = nn.Parameter(torch.zeros(devices + 1, EFFECTS))
        # Of a device without records: fitted after training, see EffectFacts.
        self.register_buffer("typical_effect", torch.zeros(EFFECTS))
        self.register_buffer("by_fact", torch.zeros(len(DEVICE_FACTS), EFFECTS))
        self.by_setting = nn.Parameter(torch.zeros(len(SETTING_COLUMNS), EFFECTS))
        settings = len(SETTING_COLUMNS) + len(_PRODUCTS)
        self.by_sort = nn.Parameter(torch.zeros(settings, len(ROW_SORTS)))
        nn.init.normal_(self.output.weight, 0.0, 0.01)
        with torch.no_grad():
            self.output.bias[:] = torch.tensor([0.5, 1.0])

    typical_effect: torch.Tensor
    by_fact: torch.Tensor

    def row_times(
        self, t: TableTensors, batch: Batch, device: torch.Tensor, *, blur: float = 0.0
    ) -> RowTimes:
        """Return the time of every row of every step of a batch.

        Parameters
        ----------
        t : TableTensors
        batch : Batch
        device : Tensor of int64, shape (steps of the batch,)
        blur : float
            Standard deviation of the noise on what would give a device away (cores and caches);
            for training alone. What is peculiar to a device then has to go into its effects.
        """
        sketches = torch.from_numpy(batch.sketches)
        place = torch.from_numpy(batch.place)
        chosen = torch.from_numpy(batch.steps)
        length = t.length[sketches]
        begin = torch.cumsum(length, 0) - length
        rows = _ranges(t.start[sketches], length)
        of_row = self.row(t.rows[rows])
        lengths = length[place]
        entry = _ranges(begin[place], lengths)
        step = torch.repeat_interleave(torch.arange(len(place)), lengths)
        row = rows[entry]
        fused = t.fused[chosen][step]
        launches = torch.where(fused, t.fused_launch[row], torch.ones(()))
        if blur:
            noise = blur * torch.randn(len(place), RATE_COLUMNS)
            rates, roofline = _rates(t, chosen[step], row, fused, launches)
            rates = rates + noise[step] * _BLURRED
        else:
            rates, roofline = _rates(t, chosen[step], row, fused, launches)
        settings = t.settings[chosen]
        facts = t.facts[chosen]
        if blur:
            facts = facts + blur * torch.randn(facts.shape)
        whole = self.setting(settings) + self.fact(facts)
        hidden = torch.relu(of_row[entry] + self.rate(rates) + whole[step])
        answer = self.output(torch.relu(self.hidden(hidden)))
        unknown = (device >= self.devices)[:, None]
        typical = self.typical_effect + t.facts[chosen] @ self.by_fact
        own = torch.where(unknown, typical, self.effect[device])
        # How fast the host of a device calls says nothing of an operator that is repeated.
        own = own * (1.0 - settings[:, _ALONE, None] * _OF_LAUNCH)
        effects = own + settings @ self.by_setting
        kind = t.kind[row]
        of_sort = (_with_products(settings) @ self.by_sort)[step, t.sort[row]]
        work = roofline * torch.exp((answer[:, 0] + effects[step, kind] + of_sort).clamp(-4.0, 7.0))
        work = work + (t.slow_work[row] * t.slow_rates[chosen][step]).sum(dim=1)
        launch = LAUNCH_S * torch.exp((answer[:, 1] + effects[step, LAUNCH]).clamp(-4.0, 6.0))
        count = t.count[row]
        return RowTimes(
            step=step, row=row, work_s=work * count, launch_s=launch * launches * count, kind=kind
        )

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


def _with_products(settings: torch.Tensor) -> torch.Tensor:
    pairs = [settings[:, one] * settings[:, other] for one, other in _PRODUCTS]
    return torch.cat([settings, torch.stack(pairs, dim=1)], dim=1)


def _ranges(start: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Concatenate ``start[i] .. start[i] + length[i]``."""
    before = torch.cumsum(length, 0) - length
    return torch.repeat_interleave(start - before, length) + torch.arange(int(length.sum()))


def _rates(
    t: TableTensors,
    step: torch.Tensor,
    row: torch.Tensor,
    fused: torch.Tensor,
    launches: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the device makes of each row, for the network, and its roofline time."""
    peaks = t.peaks[step]
    matrix = torch.where(t.wide[row], peaks[:, 1], peaks[:, 0])
    compute = t.flops[row] / torch.where(t.matrix[row], matrix, peaks[:, 2])
    traffic = torch.where(fused, t.fused_traffic[row], t.traffic[row])
    memory = traffic / peaks[:, 3]
    roofline = torch.maximum(compute, memory).clamp_min(_TICK_S)
    log_compute, log_memory = torch.log2(compute + _TICK_S), torch.log2(memory + _TICK_S)
    waves = t.tiles[row] / peaks[:, 5]
    filled = torch.where(waves > 0, waves / torch.ceil(waves).clamp_min(1.0), torch.ones(()))
    columns = [
        (log_compute + 20.0) / 5.0,
        (log_memory + 20.0) / 5.0,
        (torch.log2(roofline) + 17.0) / 5.0,
        (log_compute - log_memory) / 5.0,
        (t.log_output[row] - torch.log2(peaks[:, 5]) - 10.0) / 5.0,
        fused.float() * launches,
        torch.where(
            t.matrix[row], torch.log2(matrix / peaks[:, 5] / peaks[:, 6] / 1024.0), torch.zeros(())
        ),
        torch.where(waves > 0, torch.log2(waves + 1e-3) / 5.0 + filled, torch.zeros(())),
    ]
    return torch.stack(columns, dim=1), roofline
