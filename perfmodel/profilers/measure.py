"""Measure one job on this machine: step time, peak memory and operator times."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import MeasurementError
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_fields
from perfmodel.graph.workload import Workload
from perfmodel.profilers.memory import PeakMemory
from perfmodel.profilers.operators import join_operators, profile_operators
from perfmodel.profilers.run import MeasureSettings, ProfiledRun
from perfmodel.profilers.timing import time_steps
from perfmodel.records import Measurement, Provenance, StepRecord
from perfmodel.types import Compiler

_LIBRARIES = ("torch", "timm", "transformers", "onnx", "onnxruntime", "numpy")


def measure_job(
    job: Job, accelerator: AcceleratorSpec, settings: MeasureSettings
) -> tuple[Measurement, Graph]:
    """Run a job in this process and return its measurement with its graph.

    Raises
    ------
    MeasurementError
        A compiler that no profiler runs.
    PerfModelError
        A job that cannot be built, captured or run.
    """
    if job.compiler is Compiler.EAGER:
        run = run_eager(job, settings)
    elif job.compiler is Compiler.ONNXRUNTIME:
        from perfmodel.profilers.onnxruntime import run_onnxruntime

        run = run_onnxruntime(job, settings)
    else:
        raise MeasurementError(
            f"No profiler runs {job.compiler} on a CPU; use eager or onnxruntime."
        )
    return _measurement(job, run, accelerator, settings), run.graph


def run_eager(job: Job, settings: MeasureSettings) -> ProfiledRun:
    """Build a job on the CPU, time its step, then profile the operators of a few more.

    The graph is captured last: what a capture leaves behind in this process can disturb neither
    the times nor the base line of the memory.
    """
    import torch

    from perfmodel.zoo.resolve import build_bundle, capture_job, program_of

    torch.set_num_threads(settings.threads)
    memory = PeakMemory()
    bundle = build_bundle(job, device="cpu")
    program = program_of(bundle, job)
    memory.reset()
    timing = time_steps(program.step, settings.policy)
    peak_memory_bytes = memory.peak_bytes()
    events = profile_operators(program.step, steps=settings.profiled_steps)
    graph = capture_job(job)
    return ProfiledRun(
        graph=graph,
        timing=timing,
        peak_memory_bytes=peak_memory_bytes,
        operators=join_operators(graph, events),
        family=bundle.family,
        model=bundle.name,
        notes=f"memory={memory.method}",
    )


def _measurement(
    job: Job, run: ProfiledRun, accelerator: AcceleratorSpec, settings: MeasureSettings
) -> Measurement:
    workload = Workload(
        graph=run.graph,
        accelerator=accelerator,
        mode=job.mode,
        batch_size=job.batch_size,
        precision=job.precision,
        memory_format=job.memory_format,
        compiler=job.compiler,
        threads=settings.threads,
    )
    step = StepRecord(
        workload_hash=workload.content_hash,
        graph_hash=run.graph.content_hash,
        model=run.model,
        family=run.family,
        job=stated_fields(job),
        accelerator=accelerator.name,
        mode=job.mode,
        batch_size=job.batch_size,
        precision=job.precision,
        memory_format=job.memory_format,
        compiler=job.compiler,
        step_time_s=run.timing.median_s,
        samples_s=run.timing.samples_s,
        low_s=run.timing.low_s,
        high_s=run.timing.high_s,
        spread=run.timing.spread,
        noisy=run.timing.noisy,
        warmup_steps=run.timing.warmup_steps,
        peak_memory_bytes=run.peak_memory_bytes,
        provenance=_provenance(accelerator, settings, run),
    )
    return Measurement(
        step=step,
        operators=run.operators.for_workload(workload.content_hash),
        joined_share=run.operators.joined_share,
        unjoined=run.operators.unjoined_s,
    )


def _provenance(
    accelerator: AcceleratorSpec, settings: MeasureSettings, run: ProfiledRun
) -> Provenance:
    notes = [
        f"other_load={run.timing.other_load:.4f}",
        f"attempts={run.timing.attempts}",
        f"operator_seconds={run.operators.total_s:.9f}",
        *([run.notes] if run.notes else []),
    ]
    return Provenance(
        accelerator=spec_to_dict(accelerator),
        software=software_versions(),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"perfmodel {_version('perfmodel') or 'unknown'}",
        licence=settings.licence,
        threads=settings.threads,
        notes="; ".join(notes),
    )


def software_versions() -> dict[str, str]:
    """Return the versions of what takes part in a measurement."""
    found = {"python": platform.python_version(), "os": platform.platform()}
    return found | {name: v for name in _LIBRARIES if (v := _version(name))}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
