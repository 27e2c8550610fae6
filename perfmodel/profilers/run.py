"""How a measurement is taken, and what a run returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfmodel.graph.ir import Graph
from perfmodel.profilers.onnx_file import OnnxFile
from perfmodel.profilers.operators.joined import JoinedOperators
from perfmodel.profilers.runtime.device_runtime import MemoryPeak
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
        Lock file of the device; None for the one that everybody shares.
    device : str
        As :func:`~perfmodel.profilers.runtime.open_runtime` takes it.
    provider : str
        Execution provider of ONNX Runtime by its short name; empty for the usual one of the
        compiler.
    device_graphs : bool
        Launch the whole step as one graph of the device (CUDA graphs).
    files : mapping of str to OnnxFile
        What is run of jobs that refer to a graph, by its hash.
    """

    threads: int
    policy: TimingPolicy = field(default_factory=TimingPolicy)
    profiled_steps: int = 3
    timeout_s: float = 120.0
    memory_limit_bytes: float | None = None
    lock_path: Path | None = None
    licence: str = "Apache-2.0"
    device: str = "cpu"
    provider: str = ""
    device_graphs: bool = False
    files: Mapping[str, OnnxFile] = field(default_factory=dict, hash=False)

    @property
    def execution(self) -> str:
        """What differs from the compiler's usual way, as records state it.

        Examples
        --------
        >>> MeasureSettings(threads=1, provider="migraphx").execution
        'provider=migraphx'
        """
        words = [f"provider={self.provider}"] if self.provider else []
        return ", ".join([*words, *(["device_graphs"] if self.device_graphs else [])])


@dataclass(frozen=True, kw_only=True)
class ProfiledRun:
    """What a run of one step returned, before it is written down.

    Parameters
    ----------
    memory : MemoryPeak
        During the timed steps.
    device_busy_s : float or None
        Seconds of a step in which the device ran anything; None where it is not told apart.
    notes : tuple of str
        ``name=value``, for the provenance.
    """

    graph: Graph
    timing: Timing
    memory: MemoryPeak
    operators: JoinedOperators
    family: str
    model: str
    device_busy_s: float | None = None
    notes: tuple[str, ...] = ()
