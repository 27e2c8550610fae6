"""The Step: a workload whose graph has become a sketch; what the joint predictors read."""

from __future__ import annotations

from dataclasses import dataclass, fields

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.graph.job import Job
from perfmodel.graph.workload import StepSetup, Workload

_SETUP = tuple(one.name for one in fields(StepSetup))


@dataclass(frozen=True, kw_only=True)
class Step(StepSetup):
    """One step of a job on one accelerator.

    Parameters
    ----------
    sketch : StepSketch
        Distinct nodes of the graph, captured at ``batch_size`` and ``precision``.
    alone : bool
        One operator that is called over and over: the device never waits for the host.
    """

    sketch: StepSketch
    alone: bool = False

    @classmethod
    def of(cls, workload: Workload) -> Step:
        """Return the step of a workload; its sketch is made once per graph."""
        same = {name: getattr(workload, name) for name in _SETUP}
        return cls(sketch=step_sketch(workload.graph), **same)

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
    """

    step: Step
    step_time_s: float
    model: str
    family: str
    source: str
    weight: float = 1.0
