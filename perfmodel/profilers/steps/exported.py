"""The model of a job as an ONNX file with its inputs, for every engine that runs such files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from perfmodel.errors import MeasurementError
from perfmodel.graph.job import Job
from perfmodel.profilers.run import MeasureSettings
from perfmodel.types import Mode, Precision

Feeds = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class ExportedJob:
    """An ONNX file and what goes into it.

    Parameters
    ----------
    file : bytes
        Weights included.
    feeds : mapping of str to ndarray
        Inputs by name.
    """

    file: bytes
    feeds: Feeds
    family: str
    model: str


def export_job(job: Job, settings: MeasureSettings) -> ExportedJob:
    """Export the model of a job with fixed shapes.

    Raises
    ------
    MeasurementError
        Another mode or precision than fp32 inference, device graphs, or a model that the
        exporter cannot express.
    """
    if job.mode is not Mode.INFERENCE or job.precision is not Precision.FP32:
        raise MeasurementError(
            f"Exported models are profiled for fp32 inference, got {job.precision} {job.mode} with "
            f"{job.compiler}; measure that with eager or inductor."
        )
    if settings.device_graphs:
        raise MeasurementError(
            f"Device graphs are recorded of PyTorch steps, not of {job.compiler}; leave them out."
        )
    import torch

    from perfmodel.profilers.steps.onnx_export import export_onnx
    from perfmodel.zoo.resolve import build_bundle

    torch.set_num_threads(settings.threads)
    bundle = build_bundle(job, device="cpu")
    file, feeds = export_onnx(bundle)
    return ExportedJob(file=file, feeds=feeds, family=bundle.family, model=bundle.name)
