"""Measure one job on a device of this machine: step time, peak memory and operator times."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.extras import installed_version
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import OutOfDeviceMemoryError, first_line
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.workload import Workload
from perfmodel.profilers.run import MeasureSettings, PreparedRun, ProfiledRun, RecordedRun
from perfmodel.profilers.runtime import DeviceRuntime, open_runtime
from perfmodel.records import STEP_WORDS, Measurement, Provenance, StepRecord
from perfmodel.types import Compiler

_LIBRARIES = (
    *("torch", "timm", "transformers", "onnx", "onnxruntime", "openvino", "numpy", "triton"),
    *("onnxruntime-gpu", "onnxruntime-migraphx", "onnxruntime-openvino", "onnxruntime-directml"),
)


def measure_job(
    job: Job,
    accelerator: AcceleratorSpec,
    settings: MeasureSettings,
    *,
    runtime: DeviceRuntime | None = None,
) -> tuple[Measurement, Graph]:
    """Measure a job in this process, one phase after the other.

    Parameters
    ----------
    accelerator : AcceleratorSpec
        What the device is; see :func:`perfmodel.devices.drivers.identity.identify`.
    runtime : DeviceRuntime, optional
        The device; by default the one that the settings name.

    Raises
    ------
    OutOfDeviceMemoryError
        The memory of the device does not suffice.
    MeasurementError
        A compiler that cannot run here, with what to install.
    PerfModelError
        A job that cannot be built, captured or run.
    """
    device = runtime or open_runtime(settings.device)
    with _named_lack_of_memory(job, accelerator, device):
        prepared = prepare_job(job, settings, threads=settings.threads)
        return finish_job(prepared.run(device), job, accelerator, settings)


def prepare_job(job: Job, settings: MeasureSettings, *, threads: int) -> PreparedRun:
    """Build a job on the host, with so many threads."""
    import torch

    torch.set_num_threads(threads)
    return _prepare(job.compiler)(job, settings)


def run_job(
    prepared: PreparedRun, job: Job, accelerator: AcceleratorSpec, device: DeviceRuntime
) -> RecordedRun:
    """Run a prepared job on its device.

    Raises
    ------
    OutOfDeviceMemoryError
        The memory of the device does not suffice.
    """
    with _named_lack_of_memory(job, accelerator, device):
        return prepared.run(device)


def finish_job(
    recorded: RecordedRun, job: Job, accelerator: AcceleratorSpec, settings: MeasureSettings
) -> tuple[Measurement, Graph]:
    """Return the measurement of a job that was run, with its graph; asks the device nothing."""
    run = recorded.finish(job)
    return _measurement(job, run, accelerator, settings), run.graph


@contextmanager
def _named_lack_of_memory(
    job: Job, accelerator: AcceleratorSpec, device: DeviceRuntime
) -> Iterator[None]:
    """Raise as such what a device says of its memory."""
    try:
        yield
    except OutOfDeviceMemoryError:
        raise
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
        raise OutOfDeviceMemoryError(
            f"The memory of {accelerator.name} does not suffice for {job.label} {job.mode} at "
            f"batch size {job.batch_size}: {first_line(error)}",
            capacity_bytes=device.facts.memory_bytes,
        ) from error


def _prepare(compiler: Compiler) -> Callable[[Job, MeasureSettings], PreparedRun]:
    match compiler:
        case Compiler.ONNXRUNTIME | Compiler.TENSORRT:
            from perfmodel.profilers.steps.onnxruntime import prepare_onnxruntime

            return prepare_onnxruntime
        case Compiler.OPENVINO:
            from perfmodel.profilers.steps.openvino import prepare_openvino

            return prepare_openvino
        case _:
            from perfmodel.profilers.steps.pytorch import prepare_pytorch

            return prepare_pytorch


#: Fields of a step that say the same of its timing, and of the device meanwhile.
_OF_TIMING = ("samples_s", "low_s", "high_s", "spread", "noisy", "warmup_steps", "energy_j")
_OF_TELEMETRY = (
    "mean_power_w", "clock_hz", "memory_clock_hz", "temperature_c", "throttle_reasons",
)  # fmt: skip


def _measurement(
    job: Job,
    run: ProfiledRun,
    accelerator: AcceleratorSpec,
    settings: MeasureSettings,
) -> Measurement:
    recorded = run.recorded
    timing, reading = recorded.timing, recorded.timing.telemetry
    asked: dict[str, Any] = {name: getattr(job, name) for name in (*STEP_WORDS, "batch_size")}
    workload = Workload(
        **asked,
        graph=run.graph,
        accelerator=accelerator,
        threads=settings.threads if accelerator.kind == "cpu" else None,
        execution=settings.execution,
    )
    step = StepRecord(
        **asked,
        **{name: getattr(timing, name) for name in _OF_TIMING},
        **{name: getattr(reading, name) for name in _OF_TELEMETRY},
        workload_hash=workload.content_hash,
        graph_hash=run.graph.content_hash,
        model=recorded.model,
        family=recorded.family,
        job=stated_fields(job),
        accelerator=accelerator.name,
        step_time_s=timing.median_s,
        peak_memory_bytes=recorded.memory.allocated_bytes,
        provenance=_provenance(accelerator, settings, recorded, run.operators.total_s),
        execution=settings.execution,
        device_time_s=timing.device_s,
        device_busy_s=run.device_busy_s,
        reserved_memory_bytes=recorded.memory.reserved_bytes,
        power_limit_w=reading.power_limit_w or recorded.facts.power_limit_w,
    )
    return Measurement(
        step=step,
        operators=run.operators.for_workload(workload.content_hash),
        joined_share=run.operators.joined_share,
        unjoined=run.operators.unjoined_s,
    )


def _provenance(
    accelerator: AcceleratorSpec,
    settings: MeasureSettings,
    recorded: RecordedRun,
    operators_s: float,
) -> Provenance:
    timing, reading, driver = recorded.timing, recorded.timing.telemetry, recorded.facts.driver
    notes = [
        f"other_load={timing.other_load:.4f}",
        f"attempts={timing.attempts}",
        f"operator_seconds={operators_s:.9f}",
        *recorded.notes,
        *([f"telemetry={reading.source}"] if reading.source else []),
        *([f"other_processes={reading.other_processes}"] if reading.other_processes else []),
    ]
    return Provenance(
        accelerator=spec_to_dict(accelerator),
        software=software_versions() | ({"driver": driver} if driver else {}),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"perfmodel {installed_version('perfmodel') or 'unknown'}",
        licence=settings.licence,
        threads=settings.threads,
        notes="; ".join(notes),
    )


def software_versions() -> dict[str, str]:
    """Return the versions of what takes part in a measurement."""
    found = {"python": platform.python_version(), "os": platform.platform(), **_toolkits()}
    return found | {name: v for name in _LIBRARIES if (v := installed_version(name))}


def _toolkits() -> dict[str, str]:
    """Return the toolkits that the imported PyTorch was built with."""
    torch = sys.modules.get("torch")
    built = getattr(torch, "version", None)
    found = {"cuda": getattr(built, "cuda", None), "rocm": getattr(built, "hip", None)}
    return {name: str(value) for name, value in found.items() if value}
