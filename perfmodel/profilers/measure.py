"""Measure one job on this machine: step time, peak memory and operator times."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import MeasurementError
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.profilers.operators import JoinedOperators
from perfmodel.profilers.timing import Timing, TimingPolicy
from perfmodel.profilers.wire import job_to_dict
from perfmodel.records import Measurement, Provenance, StepRecord
from perfmodel.types import Compiler

_LIBRARIES = ("torch", "timm", "transformers", "onnx", "onnxruntime", "numpy")


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
    lock_path : Path or None
        Lock file of the machine; None for the one that all campaigns share.
    licence : str
        Licence of the records.
    """

    threads: int
    policy: TimingPolicy = field(default_factory=TimingPolicy)
    profiled_steps: int = 3
    timeout_s: float = 120.0
    lock_path: Path | None = None
    licence: str = "Apache-2.0"


@dataclass(frozen=True, kw_only=True)
class ProfiledRun:
    """What a run of one step returned, before it is written down.

    Parameters
    ----------
    graph : Graph
        Of the step that ran.
    operators : JoinedOperators
        Operator times, joined to ``graph``.
    """

    graph: Graph
    timing: Timing
    peak_memory_bytes: float | None
    operators: JoinedOperators
    family: str
    model: str
    notes: str = ""


def measure_job(
    job: Job, accelerator: AcceleratorSpec, settings: MeasureSettings
) -> tuple[Measurement, Graph]:
    """Run a job in this process and return its measurement with its graph.

    Parameters
    ----------
    job : Job
        Runs eagerly or in ONNX Runtime.
    accelerator : AcceleratorSpec
        This machine.

    Returns
    -------
    graph : Graph
        Of the step that ran.

    Raises
    ------
    MeasurementError
        A compiler that no profiler runs.
    PerfModelError
        A job that cannot be built, captured or run.
    """
    if job.compiler is Compiler.EAGER:
        from perfmodel.profilers.iteration import run_eager

        run = run_eager(job, settings)
    elif job.compiler is Compiler.ONNXRUNTIME:
        from perfmodel.profilers.onnxruntime import run_onnxruntime

        run = run_onnxruntime(job, settings)
    else:
        raise MeasurementError(
            f"No profiler runs {job.compiler} on a CPU; use eager or onnxruntime."
        )
    return _measurement(job, run, accelerator, settings), run.graph


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
        job=job_to_dict(job),
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
