"""Measurements: what profilers return, the store keeps and training reads.

All times are seconds, all sizes bytes, as everywhere inside perfmodel. A record is complete in
itself: with the graph of its ``graph_hash`` and the accelerator of its provenance it can be
turned back into the :class:`~perfmodel.graph.workload.Workload` that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from perfmodel.types import Compiler, MemoryFormat, Mode, Phase, Precision


def as_plain(value: Any) -> Any:
    """Return a record, or a value of one, as plain JSON: words are texts, tuples lists."""
    if is_dataclass(value):
        return {one.name: as_plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner) for inner in value]
    return str(value) if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where, when and with what a measurement was taken.

    Parameters
    ----------
    accelerator : mapping
        Facts of the device as a plain dict (see ``perfmodel.devices.local_cpu.spec_to_dict``).
    software : mapping of str to str
        ``torch``, ``python``, ``onnxruntime``, ``cuda``, ``driver``, ``os`` ... versions.
    measured_at : str
        UTC, ISO 8601.
    source : str
        ``"perfmodel <version>"`` for own profiles; the public set's name for imported ones.
    threads : int or None
        CPU threads the step could use.
    """

    accelerator: Mapping[str, Any]
    software: Mapping[str, str]
    measured_at: str
    source: str
    licence: str = "Apache-2.0"
    threads: int | None = None
    notes: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRecord:
    """The measured time of one step of one workload.

    Parameters
    ----------
    workload_hash : str
        :attr:`Workload.content_hash` of what ran.
    graph_hash : str
        :attr:`Graph.content_hash` of its graph.
    family : str
        Architecture family, the unit of leave-family-out splits.
    job : mapping
        The job as a plain dict, enough to build it again.
    step_time_s : float
        Median over ``samples_s``.
    samples_s : tuple of float
        Every timed step, in order, after warm-up.
    low_s, high_s : float
        10 % and 90 % quantiles of the samples.
    spread : float
        (high - low) / median.
    noisy : bool
        The spread stayed above the limit, other processes used the machine or the device
        meanwhile, or heat held the device back.
    peak_memory_bytes : float or None
        Highest resident (CPU) or allocated (GPU) memory during the timed steps, above the
        process before the model was built.
    execution : str
        What runs it differently from the compiler's usual way: ``"device_graphs"``,
        ``"provider=migraphx"``; empty for the usual way.
    device_time_s : float or None
        Median between events before and after a step, on the device's own clock.
    device_busy_s : float or None
        Seconds of a step in which the device ran any kernel or copy; None where it is not told
        apart from the host.
    reserved_memory_bytes : float or None
        Most that the allocator took from the device, its cache included.
    energy_j : float or None
        Of the device, per step.
    mean_power_w, clock_hz, memory_clock_hz, temperature_c, power_limit_w : float or None
        Of the device during the timed steps; clocks are medians, the temperature the highest.
    throttle_reasons : tuple of str
        Why its clock was held back meanwhile.
    """

    workload_hash: str
    graph_hash: str
    model: str
    family: str
    job: Mapping[str, Any]
    accelerator: str
    mode: Mode
    batch_size: int
    precision: Precision
    memory_format: MemoryFormat
    compiler: Compiler
    step_time_s: float
    samples_s: tuple[float, ...]
    low_s: float
    high_s: float
    spread: float
    noisy: bool
    warmup_steps: int
    peak_memory_bytes: float | None
    provenance: Provenance
    execution: str = ""
    device_time_s: float | None = None
    device_busy_s: float | None = None
    reserved_memory_bytes: float | None = None
    energy_j: float | None = None
    mean_power_w: float | None = None
    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    power_limit_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()

    @property
    def idle_share(self) -> float | None:
        """Share of the step in which the device waited for its host; None where not known.

        ``1 - device_busy_s / step_time_s``, at least 0: the busy time is that of steps under the
        profiler, which may be a little longer.
        """
        if self.device_busy_s is None:
            return None
        return max(0.0, 1.0 - self.device_busy_s / self.step_time_s)

    @property
    def samples_per_second(self) -> float:
        """Throughput: samples of one step over its median time."""
        return self.batch_size / self.step_time_s


#: Fields of a step that are words of a vocabulary.
STEP_WORDS: Mapping[str, type[StrEnum]] = MappingProxyType(
    {"mode": Mode, "precision": Precision, "memory_format": MemoryFormat, "compiler": Compiler}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorRecord:
    """The measured time of one node of one workload.

    Parameters
    ----------
    workload_hash : str
        The workload it ran in; its :class:`StepRecord` holds everything else.
    node : int
        Position in :attr:`Graph.nodes`.
    time_s : float
        Median self time over the profiled steps.
    """

    workload_hash: str
    node: int
    op: str
    phase: Phase
    time_s: float


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Everything one profile run of one workload returned.

    Parameters
    ----------
    operators : tuple of OperatorRecord
        Only the nodes that could be joined.
    joined_share : float
        Share of the profiled operator time that was joined to nodes, in [0, 1].
    unjoined : mapping of str to float
        Seconds of operators that appear in the profile and in no node, by name.
    """

    step: StepRecord
    operators: tuple[OperatorRecord, ...] = ()
    joined_share: float = 0.0
    unjoined: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
