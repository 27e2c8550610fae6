"""A module of the caller's own as a job, captured here and now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel.errors import MissingExtraError
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.graph.job_form import parse_job
from perfmodel.graph.job_identity import job_reference

if TYPE_CHECKING:
    from torch import nn


def prepare_module(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> PreparedJob:
    """Capture one step of a module, which is neither changed nor run.

    Parameters
    ----------
    args, kwargs
        One micro-batch of inputs, real or on the meta device.
    settings : mapping
        Fields of a job besides its model; the mode is inference where nothing is said, the batch
        size that of the inputs.

    Raises
    ------
    InvalidInputError
        A setting that makes no sense, or no inputs.
    CaptureError
        The step cannot be captured.
    MissingExtraError
        torch is not installed.
    """
    try:
        from perfmodel.capture.torch import capture
    except ModuleNotFoundError as error:
        raise MissingExtraError("Capturing a module", extra="train") from error
    from perfmodel.zoo.own_module import bundle_of_module
    from perfmodel.zoo.resolve import program_of, source_of

    bundle = bundle_of_module(module, args, kwargs, batch_size=settings.get("batch_size"))
    stated = {"mode": "inference", **settings, "batch_size": bundle.samples}
    job = parse_job({**stated, "graph": "own"})
    graph = capture(program_of(bundle, job), source=source_of(bundle, job))
    named = replace(job, graph=graph.content_hash)
    step = CapturedStep(graph=graph, tokens_per_sample=bundle.tokens_per_sample)
    return PreparedJob(job=named, key=job_reference(named), step=step)
