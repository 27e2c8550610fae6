"""Run a model in ONNX Runtime: its step time, its peak memory, the times of its nodes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from perfmodel.errors import MeasurementError, MissingExtraError, PerfModelError
from perfmodel.graph.job import Job
from perfmodel.profilers.operators.onnx_nodes import KernelTime
from perfmodel.profilers.run import MeasureSettings, PreparedRun, RecordedRun
from perfmodel.profilers.runtime import DeviceRuntime, MemoryPeak
from perfmodel.profilers.steps.exported import ExportedJob, Feeds, RecordedExport, export_job
from perfmodel.profilers.steps.providers import Provider, check_used, provider_for
from perfmodel.profilers.timing import time_steps
from perfmodel.traces.formats.onnxruntime_profile import NodeRun, node_runs

#: Graph optimisation level of every session; the name of a member of ORT's enumeration.
OPTIMISATION = "ORT_ENABLE_ALL"
#: The place in its own sources that ONNX Runtime begins some reasons with.
_SOURCE = re.compile(r"/onnxruntime_src/\S+:\d+ .*?\) ")


def prepare_onnxruntime(job: Job, settings: MeasureSettings) -> PreparedRun:
    """Make the file of a job.

    Raises
    ------
    MeasurementError
        Another mode or precision, or a model that cannot be exported.
    """
    return _PreparedFile(job=job, settings=settings, exported=export_job(job, settings))


@final
@dataclass(frozen=True, kw_only=True)
class _PreparedFile(PreparedRun):
    job: Job
    settings: MeasureSettings
    exported: ExportedJob

    def run(self, runtime: DeviceRuntime) -> RecordedRun:
        """Take step times without a profiler, then node times with ORT's own.

        Both sessions have the same options. Nodes that ORT fused count for the node whose name the
        fused one bears. Where a provider has memory of its own, inputs and outputs stay in it.

        Raises
        ------
        MeasurementError
            A file that cannot be run, or an execution provider that is not there or does not serve
            the device; says what to install.
        """
        exported, settings = self.exported, self.settings
        provider = provider_for(self.job.compiler, settings.provider, runtime.facts.backend)
        runtime.release_memory()
        with _refused_with_reason(exported.model, runtime):
            session = _session(exported.file, settings.threads, provider)
            step = _step_of(session, exported.feeds, provider)
            del session
            runtime.reset_peak_memory()
            timing = time_steps(step, settings.policy, clock=runtime)
            memory = _told_memory(runtime, provider)
        del step
        runs, shares = profile_kernels(
            exported.file,
            exported.feeds,
            threads=settings.threads,
            runs=settings.profiled_steps,
            provider=provider,
        )
        return RecordedExport(
            graph=exported.graph,
            names=exported.names,
            passes=runs,
            timing=timing,
            memory=memory,
            facts=runtime.facts,
            family=exported.family,
            model=exported.model,
            notes=(
                f"memory={memory.method}",
                f"onnxruntime_optimisation={OPTIMISATION}",
                *(f"time_share_{name}={share:.3f}" for name, share in shares.items()),
            ),
        )


@contextmanager
def _refused_with_reason(model: str, runtime: DeviceRuntime) -> Iterator[None]:
    """Raise what ONNX Runtime says of a file that it cannot load or run as such."""
    try:
        yield
    except PerfModelError:
        raise
    except Exception as error:  # its exceptions have no base of their own
        if runtime.is_out_of_memory(error):
            raise
        reason = _SOURCE.sub("", str(error)).split("\n", 1)[0][:300]
        raise MeasurementError(f"ONNX Runtime cannot run {model}: {reason}") from error


def profile_kernels(
    file: bytes, feeds: Feeds, *, threads: int, runs: int, provider: Provider | None = None
) -> tuple[tuple[tuple[KernelTime, ...], ...], dict[str, float]]:
    """Return the kernels of each of some runs, measured by ONNX Runtime itself.

    Parameters
    ----------
    threads, runs : int
        Each >= 1; two more runs warm up.

    Returns
    -------
    runs : tuple of tuple of KernelTime
    shares : dict of str to float
        Share of the kernels' time by execution provider: a provider leaves what it has no
        kernel for to the CPU.
    """
    served_by = provider or provider_for(None, "cpu", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "profile")
        session = _session(file, threads, served_by, profile_prefix=prefix)
        step = _step_of(session, feeds, served_by)
        for _ in range(runs + 2):
            step()
        kept = node_runs(Path(session.end_profiling()))[-runs:]
    return tuple(tuple(_kernels(run)) for run in kept), _provider_shares(kept)


def _step_of(session: Any, feeds: Feeds, provider: Provider) -> Callable[[], object]:
    """Return what runs a session once; inputs lie in the provider's memory beforehand."""
    if provider.memory is None:
        return lambda: session.run(None, dict(feeds))
    import onnxruntime

    binding = session.io_binding()
    for name, array in feeds.items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, provider.memory, 0)
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name, provider.memory)

    def step() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return step


def _told_memory(device: DeviceRuntime, provider: Provider) -> MemoryPeak:
    """Return the peak; what ORT takes of a device's memory, PyTorch's allocator does not see."""
    if provider.backends == ("cpu",):
        return device.peak_memory()
    return MemoryPeak(allocated_bytes=None, reserved_bytes=None, method="unknown_to_allocator")


def _session(
    file: bytes, threads: int, provider: Provider, *, profile_prefix: str | None = None
) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("Profiling in ONNX Runtime", extra="onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, OPTIMISATION)
    options.log_severity_level = 3
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    session = onnxruntime.InferenceSession(
        file, sess_options=options, providers=list(dict.fromkeys([provider.ort, _CPU]))
    )
    check_used(provider, session.get_providers())
    return session


_CPU = "CPUExecutionProvider"


def _provider_shares(runs: Iterable[Iterable[NodeRun]]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for one in (one for run in runs for one in run):
        spent[one.provider] = spent.get(one.provider, 0.0) + one.own_ns
    total = sum(spent.values())
    # One provider alone is what was asked for, and needs no word.
    return {n: s / total for n, s in spent.items()} if len(spent) > 1 and total else {}


def _kernels(run: Iterable[NodeRun]) -> Iterable[KernelTime]:
    for one in run:
        yield KernelTime(name=one.node, op_type=one.operator, time_s=one.own_ns / 1e9)
