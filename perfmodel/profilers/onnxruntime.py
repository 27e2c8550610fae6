"""Run a model in ONNX Runtime: its step time, its peak memory, the times of its nodes."""

from __future__ import annotations

import ctypes
import gc
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt

from perfmodel.capture.onnx import capture_onnx, onnx_node_name
from perfmodel.errors import MeasurementError, MissingExtraError
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.profilers.memory import PeakMemory
from perfmodel.profilers.operators import JoinedOperators, joined_over_steps
from perfmodel.profilers.run import MeasureSettings, ProfiledRun
from perfmodel.profilers.timing import time_steps
from perfmodel.traces.formats.onnxruntime_profile import node_runs
from perfmodel.types import Mode, Precision

#: Graph optimisation level of every session; the name of a member of ORT's enumeration.
OPTIMISATION = "ORT_ENABLE_ALL"

Feeds = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelTime:
    """One kernel of one run.

    Parameters
    ----------
    name : str
        Node name in the optimised graph.
    op_type : str
        ONNX operator that ran, or one of ORT's own.
    """

    name: str
    op_type: str
    time_s: float


@dataclass(frozen=True, kw_only=True)
class OnnxNames:
    """How the nodes of a file are called, and what produces what.

    Parameters
    ----------
    op_types : mapping of str to str
        Operator of each node by node name.
    producers : mapping of str to str
        Node name by the name of each tensor it writes.
    first_input : mapping of str to str
        Name of the first tensor that a node reads.
    """

    op_types: Mapping[str, str]
    producers: Mapping[str, str]
    first_input: Mapping[str, str] = field(default_factory=dict)


def run_onnxruntime(job: Job, settings: MeasureSettings) -> ProfiledRun:
    """Export the model of a job, and measure the file as :func:`run_onnx_file` does.

    Raises
    ------
    MeasurementError
        Another mode or precision, or a model that cannot be exported.
    """
    if job.mode is not Mode.INFERENCE or job.precision is not Precision.FP32:
        raise MeasurementError(
            f"ONNX Runtime is profiled for fp32 inference, got {job.precision} {job.mode}."
        )
    import torch

    from perfmodel.profilers.onnx_export import export_onnx
    from perfmodel.zoo.resolve import build_bundle

    torch.set_num_threads(settings.threads)
    bundle = build_bundle(job, device="cpu")
    file, feeds = export_onnx(bundle)
    family, model = bundle.family, bundle.name
    del bundle
    return run_onnx_file(file, feeds, settings, family=family, model=model)


def run_onnx_file(
    file: bytes, feeds: Feeds, settings: MeasureSettings, *, family: str, model: str
) -> ProfiledRun:
    """Measure an ONNX file: step times without a profiler, then node times with ORT's own.

    Both sessions have the same options. Nodes that ORT fused count for the node whose name the
    fused one bears.
    """
    _release_memory()
    memory = PeakMemory()
    run = partial(_session(file, settings.threads).run, None, feeds)
    memory.reset()
    timing = time_steps(run, settings.policy)
    peak_memory_bytes = memory.peak_bytes()
    del run
    runs = profile_kernels(file, feeds, threads=settings.threads, runs=settings.profiled_steps)
    graph = capture_onnx(file)
    return ProfiledRun(
        graph=graph,
        timing=timing,
        peak_memory_bytes=peak_memory_bytes,
        operators=join_kernels(graph, runs, read_names(file)),
        family=family,
        model=model,
        notes=f"memory={memory.method}; onnxruntime_optimisation={OPTIMISATION}",
    )


def profile_kernels(
    file: bytes, feeds: Feeds, *, threads: int, runs: int
) -> tuple[tuple[KernelTime, ...], ...]:
    """Return the kernels of each of some runs, measured by ONNX Runtime itself.

    Parameters
    ----------
    threads, runs : int
        Each >= 1; two more runs warm up.
    """
    with tempfile.TemporaryDirectory() as folder:
        session = _session(file, threads, profile_prefix=str(Path(folder) / "profile"))
        for _ in range(runs + 2):
            session.run(None, feeds)
        kept = node_runs(Path(session.end_profiling()))[-runs:]
    return tuple(
        tuple(
            KernelTime(name=one.node, op_type=one.operator, time_s=one.duration_ns / 1e9)
            for one in run
        )
        for run in kept
    )


def join_kernels(
    graph: Graph, runs: Sequence[Sequence[KernelTime]], names: OnnxNames
) -> JoinedOperators:
    """Join kernel times to the nodes of a graph, through the names of the ONNX nodes.

    Parameters
    ----------
    graph : Graph
        Captured from the same file.
    """
    position = _main_nodes(graph)
    return joined_over_steps(
        graph,
        (_joined_run(kernels, position, names) for kernels in runs),
        totals_s=[sum(kernel.time_s for kernel in kernels) for kernels in runs],
    )


def _joined_run(
    kernels: Iterable[KernelTime], position: Mapping[str, int], names: OnnxNames
) -> tuple[dict[int, float], dict[str, float]]:
    node_s: dict[int, float] = {}
    lost_s: dict[str, float] = {}
    for kernel in kernels:
        node = position.get(original_node(kernel, names) or "")
        if node is None:
            lost_s[kernel.op_type] = lost_s.get(kernel.op_type, 0.0) + kernel.time_s
        else:
            node_s[node] = node_s.get(node, 0.0) + kernel.time_s
    return node_s, lost_s


def original_node(kernel: KernelTime, names: OnnxNames) -> str | None:
    """Return the node of the file that a kernel stands for; None where its name tells nothing.

    ORT calls a fused node after one of its parts: by the part's name, by that name and a
    suffix, or (in the blocked layout) by the tensor that it writes. In the last case the part
    of the same operator lies a few steps upstream: a convolution is named after the activation
    behind it.

    Examples
    --------
    >>> names = OnnxNames(op_types={"c": "Conv", "r": "Relu"},
    ...                   producers={"c_out": "c", "r_out": "r"}, first_input={"r": "c_out"})
    >>> original_node(KernelTime(name="r_out_nchwc", op_type="Conv", time_s=1.0), names)
    'c'
    """
    if kernel.name in names.op_types:
        return kernel.name
    written = names.producers.get(re.sub(r"_nchwc$", "", kernel.name))
    if written is not None:
        return _upstream(written, kernel.op_type, names)
    parts = kernel.name.split("/")
    for count in range(len(parts) - 1, 0, -1):
        if (prefix := "/".join(parts[:count])) in names.op_types:
            return prefix
    return None


def read_names(file: bytes) -> OnnxNames:
    """Return the node names of an ONNX file.

    Raises
    ------
    MissingExtraError
        onnx is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("Reading ONNX node names", extra="onnx") from error
    nodes = onnx.load_from_string(file).graph.node
    return OnnxNames(
        op_types={node.name: node.op_type for node in nodes},
        producers={output: node.name for node in nodes for output in node.output},
        first_input={node.name: node.input[0] for node in nodes if node.input},
    )


def _upstream(node: str, op_type: str, names: OnnxNames, *, steps: int = 6) -> str:
    current: str | None = node
    for _ in range(steps):
        if current is None:
            break
        if names.op_types[current] == op_type:
            return current
        current = names.producers.get(names.first_input.get(current, ""))
    return node


def _main_nodes(graph: Graph) -> dict[str, int]:
    """Return for each ONNX name the node that does its work: the unmarked one, else the first."""
    positions: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        name = onnx_node_name(node.name)
        if name == node.name or name not in positions:
            positions[name] = position
    return positions


def _session(file: bytes, threads: int, *, profile_prefix: str | None = None) -> Any:
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
    return onnxruntime.InferenceSession(
        file, sess_options=options, providers=["CPUExecutionProvider"]
    )


def _release_memory() -> None:
    """Give what the export left free back to the system, so that the base line is honest."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
