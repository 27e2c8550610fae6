"""Run a step in PyTorch: eager, compiled, or as one graph of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from perfmodel.errors import MeasurementError
from perfmodel.graph.job import Job
from perfmodel.profilers.operators.device_kernels import profile_device
from perfmodel.profilers.operators.step_operators import StepOperators, profile_calls
from perfmodel.profilers.run import (
    OTHER_LOAD_BESIDE_DEVICE,
    MeasureSettings,
    PreparedRun,
    ProfiledRun,
    RecordedRun,
)
from perfmodel.profilers.runtime import DeviceRuntime, MemoryPeak
from perfmodel.profilers.steps.arithmetic import matrix_units, refuse_quantised
from perfmodel.profilers.steps.compiled import inductor_program, load_inductor
from perfmodel.profilers.timing import TimingPolicy, time_steps
from perfmodel.types import Compiler

if TYPE_CHECKING:
    from perfmodel.capture.program import Program
    from perfmodel.zoo.bundle import ModelBundle

Step = Callable[[], object]


def prepare_pytorch(job: Job, settings: MeasureSettings) -> PreparedRun:
    """Build the model of a job and its inputs on the host.

    Raises
    ------
    MeasurementError
        A precision that PyTorch would not compute in, or an execution provider.
    """
    from perfmodel.zoo.resolve import build_bundle

    refuse_quantised(job)
    if settings.provider:
        raise MeasurementError(
            f"Execution providers are those of ONNX Runtime; {job.compiler.value} runs in PyTorch. "
            f"Leave {settings.provider} out, or ask for the compiler onnxruntime."
        )
    if job.compiler is Compiler.INDUCTOR:
        load_inductor()
    return _PreparedModel(job=job, settings=settings, bundle=build_bundle(job, device="cpu"))


@final
@dataclass(frozen=True, kw_only=True)
class _PreparedModel(PreparedRun):
    job: Job
    settings: MeasureSettings
    bundle: ModelBundle

    def run(self, runtime: DeviceRuntime) -> RecordedRun:
        """Time the step, then record the operators of a few more.

        Inductor compiles here: it asks the device what it is, and tries kernels on it.

        Raises
        ------
        MeasurementError
            A compiler without its tools.
        """
        import torch

        from perfmodel.zoo.moved import bundle_on
        from perfmodel.zoo.resolve import program_of

        job, settings = self.job, self.settings
        torch.set_num_threads(settings.threads)
        bundle = bundle_on(self.bundle, runtime.torch_device)
        with (
            matrix_units(job.precision) as switch,
            _runnable(program_of(bundle, job), job, settings, runtime) as (step, notes),
        ):
            runtime.reset_peak_memory()
            timing = time_steps(step, _policy(settings, runtime), clock=runtime)
            memory = _told_memory(runtime.peak_memory(), job)
            operators = _profiled(step, runtime, settings.profiled_steps)
        return _RecordedModel(
            timing=timing,
            memory=memory,
            facts=runtime.facts,
            operators=operators,
            family=bundle.family,
            model=bundle.name,
            notes=(f"memory={memory.method}", switch, *notes),
        )


@final
@dataclass(frozen=True, kw_only=True)
class _RecordedModel(RecordedRun):
    operators: StepOperators

    def finish(self, job: Job) -> ProfiledRun:
        """Capture the graph, and join the operators to it.

        What a capture leaves behind in its process can disturb neither the times nor the base line
        of the memory: they have been taken.
        """
        from perfmodel.zoo.resolve import capture_job

        graph = capture_job(job)
        return ProfiledRun(
            recorded=self,
            graph=graph,
            operators=self.operators.join(graph),
            device_busy_s=self.operators.busy_s,
        )


@contextmanager
def _runnable(
    program: Program, job: Job, settings: MeasureSettings, runtime: DeviceRuntime
) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """Yield the step as it is to be run, and what the record states of it."""
    if job.compiler is Compiler.INDUCTOR:
        with inductor_program(program, device_graphs=settings.device_graphs) as compiled:
            yield compiled.program.step, compiled.notes
    elif settings.device_graphs:
        _make_capturable(program)
        yield runtime.graph_of(program.step), ()
    else:
        yield program.step, ()


def _policy(settings: MeasureSettings, runtime: DeviceRuntime) -> TimingPolicy:
    """Let others use more of the host of a device that works by itself: it only launches."""
    if not runtime.asynchronous:
        return settings.policy
    limit = max(settings.policy.other_load_limit, OTHER_LOAD_BESIDE_DEVICE)
    return replace(settings.policy, other_load_limit=limit)


def _make_capturable(program: Program) -> None:
    """Let an optimizer keep its counters on the device, as a graph of the device needs it."""
    for group in program.optimizer.param_groups if program.optimizer else ():
        if "capturable" in group:
            group["capturable"] = True


def _profiled(step: Step, runtime: DeviceRuntime, steps: int) -> StepOperators:
    if runtime.asynchronous:
        return profile_device(step, runtime, steps=steps)
    return profile_calls(step, steps=steps)


def _told_memory(peak: MemoryPeak, job: Job) -> MemoryPeak:
    """Drop a figure that says nothing of the step.

    Without an allocator of its own a device's memory is that of this process, and there the
    compiler takes more than most models.
    """
    if job.compiler is Compiler.INDUCTOR and peak.method != "allocator":
        return replace(peak, allocated_bytes=None, method="unknown_beside_compiler")
    return peak
