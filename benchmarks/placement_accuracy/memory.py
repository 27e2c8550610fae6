"""Memory of one accelerator: answers on devices and workloads that were left out of the fit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from placement_accuracy.line import Line
from placement_accuracy.memory_cpu import evaluate_cpu

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.placement.memory.memory import (
    UNBOUNDED,
    ExcessBounds,
    MemoryColumns,
    memory_columns,
)
from perfmodel.placement.memory.memory_demand import constants_for
from perfmodel.placement.memory.memory_parts import MemoryPlan, memory_parts
from perfmodel.training.placement_fits.fit_memory import fit_rows
from perfmodel.training.placement_rows.memory_rows import MemoryRow, memory_rows

_TARGET = 0.06
#: A device filled less than this was not filled because its batch was chosen to fill it.
_WITH_ROOM = 0.85
#: Bytes of a parameter in mixed precision with Adam, as is often said.
_BYTES_OF_A_PARAMETER = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Answers to rows by fits that did not see what the row was left out with.

    Parameters
    ----------
    groups : sequence of str
        What each was left out with.
    cells : sequence of MemoryColumns
        Of a single cell each.
    """

    rows: Sequence[MemoryRow]
    groups: Sequence[str]
    cells: Sequence[MemoryColumns]

    @property
    def peak_bytes(self) -> FloatArray:
        """What each device shows at most, shape (rows,)."""
        return np.array([float(cell.peak_bytes[0]) for cell in self.cells])

    @cached_property
    def fits(self) -> BoolArray:
        """Which rows are said to fit."""
        return np.array([bool(cell.fits[0]) for cell in self.cells])

    @property
    def ran(self) -> BoolArray:
        """Which rows ran."""
        return np.array([not row.ran_out for row in self.rows])

    @property
    def false_fits(self) -> float:
        """Share of those said to fit that ran out."""
        return float((self.fits & ~self.ran).sum() / max(self.fits.sum(), 1))

    @property
    def false_refusals(self) -> float:
        """Share of those that ran that were said not to fit."""
        return float((~self.fits & self.ran).sum() / max(self.ran.sum(), 1))


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Judge the memory of one accelerator.

    Parameters
    ----------
    fast : bool
        Leave out single devices only, not workloads, and run nothing on the CPU.
    """
    rows = memory_rows(data)
    by_device = held_out(rows, lambda row: row.accelerator.name)
    alone = np.array([row.count == 1 for row in rows])
    lines = [
        _line("memory-one", "Memory of one accelerator, device never seen", by_device, alone),
        _line("memory-replicas", "Memory of one of 1 to 16 replicas, device never seen", by_device),
        _line(
            "memory-with-room",
            "The same where less than 85 % of the device was filled",
            by_device,
            _filled(rows) < _WITH_ROOM,
        ),
    ]
    if not fast:
        by_workload = held_out(rows, lambda row: str(row.job.model))
        title = "Memory of a workload never seen"
        lines.append(_line("memory-workload", title, by_workload, target=None))
        once = observed_elsewhere(by_workload)
        lines.append(
            _line("memory-ran-elsewhere", f"{title}, which ran on one other device", once,
                  target=None)
        )  # fmt: skip
        short = ran_out_elsewhere(by_workload)
        lines.append(
            _line("memory-ran-out-elsewhere", f"{title}, which ran out on one other device", short,
                  target=None)
        )  # fmt: skip
        lines.append(evaluate_cpu())
    return lines


def held_out(rows: Sequence[MemoryRow], group_of: Callable[[MemoryRow], str]) -> HeldOut:
    """Answer each row by a fit on the rows of all other groups.

    Parameters
    ----------
    group_of : callable
        What a row is left out with.
    """
    groups = [group_of(row) for row in rows]
    fits = {
        left_out: fit_rows([row for row, at in zip(rows, groups, strict=True) if at != left_out])
        for left_out in sorted(set(groups))
    }
    cells = [_cell(row, fits[group]) for row, group in zip(rows, groups, strict=True)]
    return HeldOut(rows=rows, groups=groups, cells=cells)


def _cell(row: MemoryRow, constants: dict[str, Any]) -> MemoryColumns:
    replicas = float(row.replicas)
    return memory_columns(
        memory_parts(row.profile, MemoryPlan(data=replicas)),
        [row.accelerator],
        constants=constants_for(row.job, constants),
        replicas=replicas,
    )


def observed_elsewhere(held: HeldOut) -> HeldOut:
    """Answer each row again where one run of the job on another device is known, by chance."""
    chance = random.Random(0)
    ran: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at, row in enumerate(held.rows):
        if not row.ran_out:
            ran[_job_of(row)].append(at)
    cells = []
    for row, cell in zip(held.rows, held.cells, strict=True):
        device = row.accelerator.name
        others = [at for at in ran[_job_of(row)] if held.rows[at].accelerator.name != device]
        bounds = UNBOUNDED
        if others:
            bounds = ExcessBounds(ran=float(held.cells[chance.choice(others)].excess[0]))
        cells.append(replace(cell, bounds=bounds))
    return replace(held, cells=cells)


def ran_out_elsewhere(held: HeldOut) -> HeldOut:
    """Answer rows again where one run of the job out of memory on another device is known."""
    chance = random.Random(0)
    chosen, cells = [], []
    for at, (row, cell) in enumerate(zip(held.rows, held.cells, strict=True)):
        others = [
            float(seen.excess[0])
            for one, seen in zip(held.rows, held.cells, strict=True)
            if one.ran_out and _job_of(one) == _job_of(row) and one.accelerator != row.accelerator
        ]
        if others:
            chosen.append(at)
            bounds = ExcessBounds(ran_out=max(chance.choice(others), 0.0))
            cells.append(replace(cell, bounds=bounds))
    rows, groups = ([of[at] for at in chosen] for of in (held.rows, held.groups))
    return HeldOut(rows=rows, groups=groups, cells=cells)


def _job_of(row: MemoryRow) -> tuple[str, str]:
    return str(row.job.model), row.job.precision.value


def _filled(rows: Sequence[MemoryRow]) -> FloatArray:
    return np.array([row.memory_bytes / row.accelerator.memory_bytes for row in rows])


def _line(
    name: str,
    title: str,
    held: HeldOut,
    chosen: BoolArray | None = None,
    target: float | None = _TARGET,
) -> Line:
    chosen = held.ran if chosen is None else held.ran & chosen
    rows = [row for row, take in zip(held.rows, chosen.tolist(), strict=True) if take]
    return Line(
        name=name,
        title=title,
        measured=np.array([row.memory_bytes for row in rows]),
        predicted=held.peak_bytes[chosen],
        groups=[group for group, take in zip(held.groups, chosen.tolist(), strict=True) if take],
        jobs=[f"{row.job.model} {row.job.precision}" for row in rows],
        baselines={
            "95 % of the device": np.array([0.95 * row.accelerator.memory_bytes for row in rows]),
            "tensors by liveness": np.array([row.profile.peak_tensor_bytes for row in rows]),
            "16 bytes a parameter": np.array([_sixteen_bytes(row) for row in rows]),
        },
        target=target,
        note=_note(held),
    )


def _sixteen_bytes(row: MemoryRow) -> float:
    """Sixteen bytes of each parameter, and the activations at their peak."""
    size = 2 if row.job.precision.value == "fp16" else 4
    parameters = row.profile.parameter_bytes / size
    return _BYTES_OF_A_PARAMETER * parameters + float(row.profile.activation_corners.max())


def _note(held: HeldOut) -> str:
    short = int((~held.ran).sum())
    caught = int((~held.fits & ~held.ran).sum())
    return (
        "Measured is what the monitor of the device showed, with what the allocator only keeps; "
        "most batches were chosen to fill the device, so that a share of its capacity is a "
        f"strong guess. Of {int(held.fits.sum())} points said to fit {held.false_fits:.1%} ran "
        f"out; of {short} that ran out {caught} were said to; of {int(held.ran.sum())} that ran "
        f"{held.false_refusals:.1%} were said not to fit."
    )
