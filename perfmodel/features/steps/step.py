"""The Step: a workload whose graph has become a sketch; what the joint predictors read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a job on one accelerator.

    Parameters
    ----------
    sketch : StepSketch
        Distinct nodes of the graph, captured at ``batch_size`` and ``precision``.
    batch_size : int
        Samples per step, >= 1.
    software : mapping of str to str
        Versions that matter (``torch``, ``cuda``); empty where unknown.
    threads : int or None
        CPU threads used; None off the CPU.
    alone : bool
        One operator that is called over and over: the device never waits for the host.
    """

    sketch: StepSketch
    accelerator: AcceleratorSpec
    mode: Mode
    batch_size: int
    precision: Precision = Precision.FP32
    memory_format: MemoryFormat = MemoryFormat.CHANNELS_FIRST
    compiler: Compiler = Compiler.EAGER
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    threads: int | None = None
    alone: bool = False

    @classmethod
    def of(cls, workload: Workload) -> Step:
        """Return the step of a workload; its sketch is made once per graph."""
        return cls(
            sketch=step_sketch(workload.graph),
            accelerator=workload.accelerator,
            mode=workload.mode,
            batch_size=workload.batch_size,
            precision=workload.precision,
            memory_format=workload.memory_format,
            compiler=workload.compiler,
            software=workload.software,
            threads=workload.threads,
        )

    @classmethod
    def of_job(cls, job: Job, sketch: StepSketch, accelerator: AcceleratorSpec) -> Step:
        """Return the step of a job whose graph has a sketch; micro-batches are one step."""
        return cls(
            sketch=sketch,
            accelerator=accelerator,
            mode=job.mode,
            batch_size=job.batch_size * job.accumulation_steps,
            precision=job.precision,
            memory_format=job.memory_format,
            compiler=job.compiler.answered_as,
            software=job.software,
        )


@dataclass(frozen=True, kw_only=True)
class StepSample:
    """A measured step to learn from.

    Parameters
    ----------
    step_time_s : float
        Measured, > 0.
    model : str
        Model reference, for reports.
    family : str
        Architecture family; steps of one family never lie on both sides of a family split.
    source : str
        Which set of measurements it belongs to: ``"timm"``, ``"lambda"``, ``"profiles"``, ...
    weight : float
        Relative weight, > 0.
    spread : float
        Relative width of repeated timings; 0 where unknown.
    memory_bytes : float or None
        Largest memory in use, where it was recorded.
    peak_tensor_bytes : float
        Most bytes that the tensors of the step occupy at one time.
    """

    step: Step
    step_time_s: float
    model: str
    family: str
    source: str
    weight: float = 1.0
    spread: float = 0.0
    memory_bytes: float | None = None
    peak_tensor_bytes: float = 0.0
