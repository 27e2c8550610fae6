"""How a measurement is taken, and what a run returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators import JoinedOperators
from perfmodel.profilers.timing import Timing, TimingPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasureSettings:
    """How measurements are taken.

    Parameters
    ----------
    threads : int
        CPU threads of the step, >= 1.
    profiled_steps : int
        Steps under the operator profiler, >= 1.
    timeout_s : float
        Longest time of one measurement, start of its process included.
    memory_limit_bytes : float or None
        Resident memory past which a measurement is ended; None: the machine's own limit.
    lock_path : Path or None
        Lock file of the machine; None for the one that all campaigns share.
    """

    threads: int
    policy: TimingPolicy = field(default_factory=TimingPolicy)
    profiled_steps: int = 3
    timeout_s: float = 120.0
    memory_limit_bytes: float | None = None
    lock_path: Path | None = None
    licence: str = "Apache-2.0"


@dataclass(frozen=True, kw_only=True)
class ProfiledRun:
    """What a run of one step returned, before it is written down."""

    graph: Graph
    timing: Timing
    peak_memory_bytes: float | None
    operators: JoinedOperators
    family: str
    model: str
    notes: str = ""
