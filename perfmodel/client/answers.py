"""Answers to questions. Fields that the service gains later are passed over.

Times are seconds, sizes bytes, rates of samples per second those of the whole job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfmodel.client.errors import Problem

#: Numbers of a column; None where there is no answer.
Column = tuple[float | None, ...]
#: One row a job, one element a placement.
Table = tuple[Column, ...]


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Samples per second, with an interval that holds the truth with chance ``coverage``."""

    samples_per_second: float
    low: float
    high: float
    coverage: float
    tokens_per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Where the seconds of one step go; the parts add up to it."""

    compute_s: float
    exposed_communication_s: float
    input_stall_s: float
    overhead_s: float


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of the accelerator with the least room, in bytes; None where it is not known."""

    peak_bytes: float | None
    capacity_bytes: float
    fits: bool | None
    oom_probability: float | None = None


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """What a job on the same accelerators suffers: how many times as long its step takes."""

    name: str
    slowdown: float
    step_time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The answer to one question.

    Parameters
    ----------
    step_time_s, compute_time_s, sync_time_s : float
        Of one step; the latter two overlap.
    basis : str
        ``measured``, ``calibrated``, ``interpolated``, ``extrapolated``, ``analytical`` or
        ``default``, best evidence first.
    nearest : tuple of str
        What was measured that is most alike.
    model_version : str
        Who answered.
    unpriced_operators : mapping of str to int
        Operators without a formula, and how often they come.
    """

    throughput: Throughput
    step_time_s: float
    compute_time_s: float
    sync_time_s: float
    breakdown: Breakdown
    memory: Memory
    basis: str
    out_of_distribution: bool
    model_version: str
    nearest: tuple[str, ...] = ()
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CellProblem(Problem):
    """Why a row, a column or a cell of a matrix has no answer; None means all of them."""

    job: int | None = None
    placement: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One answered cell of a matrix."""

    samples_per_second: float
    low: float | None
    high: float | None
    step_time_s: float | None
    compute_time_s: float | None = None
    sync_time_s: float | None = None
    peak_bytes: float | None
    fits: bool | None
    basis: str | None
    out_of_distribution: bool | None


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Every pair of some jobs and some placements: one row a job, one element a placement.

    A service that does not tell apart what computes and what synchronises leaves those columns
    empty.
    """

    jobs: int
    placements: int
    samples_per_second: Table
    low: Table
    high: Table
    coverage: float | None
    step_time_s: Table
    compute_time_s: Table = ()
    sync_time_s: Table = ()
    peak_bytes: Table
    fits: tuple[tuple[bool | None, ...], ...]
    basis: tuple[tuple[str | None, ...], ...]
    out_of_distribution: tuple[tuple[bool | None, ...], ...]
    status: tuple[tuple[str, ...], ...]
    model_version: str | None
    errors: tuple[CellProblem, ...] = ()
    unpriced_operators: tuple[Mapping[str, int] | None, ...] = ()
    warnings: tuple[str, ...] = ()

    def cell(self, job: int, placement: int) -> Cell | None:
        """Return one cell by position; None where it has no answer."""
        rate = self.samples_per_second[job][placement]
        if rate is None or self.status[job][placement] != "ok":
            return None
        return Cell(
            samples_per_second=rate,
            low=self.low[job][placement],
            high=self.high[job][placement],
            step_time_s=self.step_time_s[job][placement],
            compute_time_s=_element(self.compute_time_s, job, placement),
            sync_time_s=_element(self.sync_time_s, job, placement),
            peak_bytes=self.peak_bytes[job][placement],
            fits=self.fits[job][placement],
            basis=self.basis[job][placement],
            out_of_distribution=self.out_of_distribution[job][placement],
        )

    def problem(self, job: int, placement: int) -> CellProblem | None:
        """Return why a cell has no answer; None where it has one."""
        return next(
            (
                error
                for error in self.errors
                if error.job in (None, job) and error.placement in (None, placement)
            ),
            None,
        )


def _element(table: Table, job: int, placement: int) -> float | None:
    return table[job][placement] if table else None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Throughput over the count of accelerators, in columns; ``efficiency`` is over the ideal.

    As in a matrix, ``compute_time_s`` and ``sync_time_s`` may be empty.
    """

    accelerator: str
    counts: tuple[int, ...]
    samples_per_second: Column
    low: Column
    high: Column
    coverage: float | None
    step_time_s: Column
    compute_time_s: Column = ()
    sync_time_s: Column = ()
    exposed_communication_s: Column
    efficiency: Column
    peak_bytes: Column
    fits: tuple[bool | None, ...]
    basis: tuple[str, ...]
    out_of_distribution: bool
    model_version: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The batch of the greatest goodput."""

    goodput: float
    samples_per_second: float
    efficiency: float
    batch_size: int
    accumulation_steps: int
    global_batch_size: int
    step_time_s: float


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One placement, by its position in the question; ``left_out`` says why it was, or is empty."""

    placement: int
    score: float | None
    estimate: Estimate
    batch: Batch | None = None
    samples_per_money: float | None = None
    samples_per_joule: float | None = None
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class PlacementProblem(Problem):
    """Why a placement has no answer."""

    placement: int


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Placements of one job, best first."""

    best: tuple[Ranked, ...]
    left_out: tuple[Ranked, ...] = ()
    errors: tuple[PlacementProblem, ...] = ()
    model_version: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FoundPlan:
    """A parallel plan, and what it loses against the best."""

    plan: Mapping[str, Any]
    batch_size: int
    accumulation_steps: int
    activation_checkpointing: str
    step_time_s: float
    samples_per_second: float
    bubble_s: float | None
    exposed_communication_s: float | None
    memory_bytes: float | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class PlanRanking:
    """Parallel plans on some hardware, best first."""

    plans: tuple[FoundPlan, ...]
    considered: int
    too_large: int
    why_none: str = ""
    model_version: str = ""
    warnings: tuple[str, ...] = ()
