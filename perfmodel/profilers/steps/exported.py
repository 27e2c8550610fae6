"""The model of a job as an ONNX file with its inputs, for every engine that runs such files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from perfmodel.capture.onnx import capture_onnx
from perfmodel.capture.program import tensors_in
from perfmodel.errors import MeasurementError, first_line
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.profilers.onnx_file import OnnxFile
from perfmodel.profilers.operators.onnx_nodes import (
    KernelTime,
    OnnxNames,
    join_kernels,
    read_names,
)
from perfmodel.profilers.run import MeasureSettings, ProfiledRun, RecordedRun
from perfmodel.profilers.steps.stored_file import read_stored
from perfmodel.types import Mode, Precision
from perfmodel.zoo.bundle import ModelBundle
from perfmodel.zoo.resolve import build_bundle

#: Operator set of the exported files.
OPSET = 17


class _Positional(nn.Module):
    """A module that takes its tensors by position and returns its first floating tensor."""

    def __init__(
        self, module: nn.Module, positional: int, names: list[str], fixed: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.module = module
        self._positional = positional
        self._names = names
        self._fixed = dict(fixed)

    def forward(self, *tensors: Tensor) -> Tensor:
        named = dict(zip(self._names, tensors[self._positional :], strict=True))
        output = self.module(*tensors[: self._positional], **named, **self._fixed)
        values = output if isinstance(output, (Tensor, Mapping, list, tuple)) else vars(output)
        return next(t for t in tensors_in(values) if t.is_floating_point())


def export_onnx(bundle: ModelBundle) -> tuple[bytes, dict[str, npt.NDArray[Any]]]:
    """Export a bundle for inference with fixed shapes.

    Parameters
    ----------
    bundle : ModelBundle
        Built on the CPU; its positional inputs are tensors.

    Returns
    -------
    file : bytes
        The ONNX file, weights included.
    feeds : dict of str to ndarray
        The bundle's inputs by the file's input names.

    Raises
    ------
    MeasurementError
        A module that the exporter cannot express.
    """
    named = {k: v for k, v in bundle.kwargs.items() if isinstance(v, Tensor)}
    fixed = {k: v for k, v in bundle.kwargs.items() if not isinstance(v, Tensor)}
    tensors = (*bundle.args, *named.values())
    names = [*(f"input_{i}" for i in range(len(bundle.args))), *named]
    module = _Positional(bundle.module, len(bundle.args), list(named), fixed).eval()
    file = io.BytesIO()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                tensors,
                file,  # type: ignore[arg-type]  # files in memory are taken too
                input_names=names,
                opset_version=OPSET,
                dynamo=False,
            )
    except Exception as error:  # the exporter raises whatever the module's code does
        raise MeasurementError(
            f"{bundle.name} cannot be exported to ONNX: {type(error).__name__}: {first_line(error)}"
        ) from error
    feeds = {
        name: np.ascontiguousarray(tensor.detach().numpy())
        for name, tensor in zip(names, tensors, strict=True)
    }
    return file.getvalue(), feeds


Feeds = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class ExportedJob:
    """An ONNX file and what goes into it.

    Parameters
    ----------
    feeds : mapping of str to ndarray
        Inputs by name.
    graph : Graph
        Captured from the file.
    """

    file: bytes
    feeds: Feeds
    graph: Graph
    family: str
    model: str

    @property
    def names(self) -> OnnxNames:
        """How the nodes of the file are called."""
        return read_names(self.file)


@final
@dataclass(frozen=True, kw_only=True)
class RecordedExport(RecordedRun):
    """Passes of an ONNX engine over a file.

    Parameters
    ----------
    graph : Graph
        Captured from the file.
    passes : sequence of sequence of KernelTime
        What ran in each profiled one.
    """

    graph: Graph
    names: OnnxNames
    passes: Sequence[Sequence[KernelTime]]

    def finish(self, job: Job) -> ProfiledRun:
        """Join what ran to the nodes of the file."""
        operators = join_kernels(self.graph, self.passes, self.names)
        return ProfiledRun(recorded=self, graph=self.graph, operators=operators)


def export_job(job: Job, settings: MeasureSettings) -> ExportedJob:
    """Return the file of a job: its model exported with fixed shapes, or the file that it names.

    Raises
    ------
    MeasurementError
        Another mode or precision than fp32 inference, device graphs, a model that the exporter
        cannot express, or a file that cannot be run.
    """
    if settings.device_graphs:
        raise MeasurementError(
            f"Device graphs are recorded of PyTorch steps, not of {job.compiler}; leave them out."
        )
    if stored := settings.files.get(job.graph or ""):
        return _stored_job(job, stored)
    if job.mode is not Mode.INFERENCE or job.precision is not Precision.FP32:
        raise MeasurementError(
            f"Exported models are profiled for fp32 inference, got {job.precision} {job.mode} with "
            f"{job.compiler}; measure that with eager or inductor."
        )
    bundle = build_bundle(job, device="cpu")
    file, feeds = export_onnx(bundle)
    return ExportedJob(
        file=file, feeds=feeds, graph=capture_onnx(file), family=bundle.family, model=bundle.name
    )


def _stored_job(job: Job, file: OnnxFile) -> ExportedJob:
    graph = file.capture()
    if graph.content_hash != job.graph:
        raise MeasurementError(f"{file.path} has changed since it was read; measure it again.")
    content, feeds = read_stored(file)
    return ExportedJob(
        file=content, feeds=feeds, graph=graph, family=file.path.stem, model=file.model
    )
