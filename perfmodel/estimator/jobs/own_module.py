"""A module of the caller's own as a job, captured here and now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InvalidInputError, MissingExtraError
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.captured_view import asked_in
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.graph.in_precision import as_it_computes
from perfmodel.graph.job import job_reference
from perfmodel.graph.job_form import parse_job

if TYPE_CHECKING:
    from torch import nn


def prepare_module(
    module: nn.Module,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> PreparedJob:
    """Capture one step of a module, which is neither changed nor run.

    Parameters
    ----------
    args, kwargs
        One micro-batch of inputs, real or on the meta device; a tensor stands for one alone.
    settings : mapping
        Fields of a job besides its model; the mode is inference where nothing is said, the batch
        size that of the inputs, the precision that of the module, and what ``torch.compile`` made
        runs in inductor.

    Raises
    ------
    InvalidInputError
        A setting that makes no sense, no module, or no inputs.
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

    if not callable(getattr(module, "named_parameters", None)):
        raise InvalidInputError(
            f"Give a torch.nn.Module; got {type(module).__name__}. A model by its name is asked "
            "about with parse_request and estimate."
        )
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    bundle = bundle_of_module(module, given, kwargs, batch_size=settings.get("batch_size"))
    usual = {"mode": "inference", "compiler": "inductor" if bundle.is_compiled else "eager"}
    stated = {**usual, **settings, "batch_size": bundle.samples}
    job = parse_job({**stated, "graph": "own"})
    graph = capture(program_of(bundle, job), source=source_of(bundle, job))
    named = replace(as_it_computes(job, graph, settings), graph=graph.content_hash)
    step = CapturedStep(graph=graph, tokens_per_sample=bundle.tokens_per_sample)
    if not named.arithmetic.is_autocast:  # whose casts the capture has made
        step = asked_in(step, named.arithmetic)
    return PreparedJob(job=named, key=job_reference(named), step=step)
