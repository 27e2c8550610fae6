"""Run a model in OpenVINO on the CPU: the exported file, compiled and executed by OpenVINO itself.

Floating-point work is held to fp32: OpenVINO would otherwise compute in bf16 wherever the CPU has
units for it. One stream, so that a step is the latency of one pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from perfmodel.errors import MeasurementError, MissingExtraError, first_line
from perfmodel.graph.job import Job
from perfmodel.profilers.operators.onnx_nodes import KernelTime
from perfmodel.profilers.run import MeasureSettings, PreparedRun, RecordedRun
from perfmodel.profilers.runtime import DeviceRuntime
from perfmodel.profilers.steps.exported import ExportedJob, Feeds, RecordedExport, export_job
from perfmodel.profilers.timing import time_steps
from perfmodel.types import Precision

#: Passes under the profiler that are not looked at.
_WARM_PASSES = 2


def prepare_openvino(job: Job, settings: MeasureSettings) -> PreparedRun:
    """Make the file of a job.

    Raises
    ------
    MissingExtraError
        OpenVINO is not installed.
    MeasurementError
        Another mode or precision, or a model that cannot be exported.
    """
    if job.precision is not Precision.FP32:
        raise MeasurementError(
            f"In OpenVINO fp32 is profiled, which it would compute in anyway; got {job.precision}. "
            "Measure that in onnxruntime."
        )
    return _PreparedFile(settings=settings, core=_core(), exported=export_job(job, settings))


@final
@dataclass(frozen=True, kw_only=True)
class _PreparedFile(PreparedRun):
    settings: MeasureSettings
    core: Any
    exported: ExportedJob

    def run(self, runtime: DeviceRuntime) -> RecordedRun:
        """Time the file, then profile its layers.

        A layer that OpenVINO fused counts for the node whose name it bears, as with ONNX Runtime;
        reorders between layouts bear none and are named in the record.

        Raises
        ------
        MeasurementError
            A device other than the CPU, or a file that OpenVINO refuses.
        """
        exported, settings = self.exported, self.settings
        if runtime.facts.backend != "cpu" or settings.provider:
            provider = f", provider {settings.provider}" if settings.provider else ""
            raise MeasurementError(
                "OpenVINO is profiled on the CPU, without an execution provider; got device "
                f"{runtime.facts.name}{provider}."
            )
        runtime.release_memory()
        request = _request(self.core, exported.file, settings.threads, profile=False)
        infer = partial(request.infer, dict(exported.feeds))
        runtime.reset_peak_memory()
        timing = time_steps(infer, settings.policy, clock=runtime)
        memory = runtime.peak_memory()
        del request, infer
        passes = profile_layers(
            exported.file, exported.feeds, threads=settings.threads, passes=settings.profiled_steps
        )
        return RecordedExport(
            graph=exported.graph,
            names=exported.names,
            passes=passes,
            timing=timing,
            memory=memory,
            facts=runtime.facts,
            family=exported.family,
            model=exported.model,
            notes=(f"memory={memory.method}", "openvino_precision=f32", "openvino_streams=1"),
        )


def profile_layers(
    file: bytes, feeds: Feeds, *, threads: int, passes: int
) -> tuple[tuple[KernelTime, ...], ...]:
    """Return the layers that ran in each of some passes, measured by OpenVINO itself.

    Parameters
    ----------
    threads, passes : int
        Each >= 1; two more passes warm up.
    """
    request = _request(_core(), file, threads, profile=True)
    series = []
    for _ in range(_WARM_PASSES + passes):
        request.infer(dict(feeds))
        series.append(tuple(_executed(request.profiling_info)))
    return tuple(series[_WARM_PASSES:])


def _executed(layers: Iterable[Any]) -> Iterable[KernelTime]:
    for layer in layers:
        time_s = layer.real_time.total_seconds()
        if time_s > 0:
            yield KernelTime(name=layer.node_name, op_type=layer.node_type, time_s=time_s)


def _core() -> Any:
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("Profiling in OpenVINO", extra="openvino") from error
    return openvino.Core()


def _request(core: Any, file: bytes, threads: int, *, profile: bool) -> Any:
    """Compile a file and return a request that infers it."""
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERF_COUNT": profile,
    }
    try:
        model = core.compile_model(core.read_model(file, b""), "CPU", settings)
    except RuntimeError as error:
        raise MeasurementError(f"OpenVINO cannot compile this file: {first_line(error)}") from error
    return model.create_infer_request()
