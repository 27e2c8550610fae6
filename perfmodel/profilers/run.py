"""How a measurement is taken, and the three phases that each is taken in.

*Prepare* builds a job on the host and asks no device anything. *Run* is all that needs the device:
it moves the job, warms up, times and records. *Finish* captures the graph and reads what was
recorded. A device that works by itself is held for the run alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.profilers.onnx_file import OnnxFile
from perfmodel.profilers.operators.joined import JoinedOperators
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime, MemoryPeak
from perfmodel.profilers.timing import Timing, TimingPolicy

#: Share of the host that others may use while an accelerator is measured: the thread that launches
#: still has a core.
OTHER_LOAD_BESIDE_DEVICE = 0.5


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
        Longest time of one measurement, the wait for its device left out.
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


class PreparedRun(ABC):
    """A job that is built on the host; it holds nothing of a device."""

    @abstractmethod
    def run(self, runtime: DeviceRuntime) -> RecordedRun:
        """Move the job to a device, time its step, and record a few more under a profiler."""


@dataclass(frozen=True, kw_only=True)
class RecordedRun(ABC):
    """What a run left behind: plain data, which another process than that of the run may finish.

    Parameters
    ----------
    memory : MemoryPeak
        During the timed steps.
    facts : DeviceFacts
        Of the device that it ran on.
    notes : tuple of str
        ``name=value``, for the provenance.
    """

    timing: Timing
    memory: MemoryPeak
    facts: DeviceFacts
    family: str
    model: str
    notes: tuple[str, ...] = ()

    @abstractmethod
    def finish(self, job: Job) -> ProfiledRun:
        """Read what was recorded, and join it to the graph of the step."""


@dataclass(frozen=True, kw_only=True)
class ProfiledRun:
    """A run with the graph of its step, before it is written down.

    Parameters
    ----------
    device_busy_s : float or None
        Seconds of a step in which the device ran anything; None where it is not told apart.
    """

    recorded: RecordedRun
    graph: Graph
    operators: JoinedOperators
    device_busy_s: float | None = None
