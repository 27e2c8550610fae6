"""Capture a step in this process: that of a job, or of a module of the caller's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmodel import errors
from perfmodel.errors import InvalidInputError, MissingExtraError
from perfmodel.estimator.jobs.captured_step import CapturedStep, asked_in, with_batches
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.graph.in_precision import as_it_computes
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job

if TYPE_CHECKING:
    from torch import nn


def load_libraries(job: Job) -> None:
    """Import torch and the library that defines the model of a job.

    Raises
    ------
    MissingExtraError
        One is not installed.
    """
    try:
        importlib.import_module("perfmodel.capture.torch")
    except ModuleNotFoundError as error:
        raise errors.MissingExtraError("Capturing a named model", extra="train") from error
    from perfmodel.zoo import libraries

    if job.hf_config is not None:
        libraries.import_transformers()
    elif (job.model or "").startswith("timm/"):
        libraries.import_timm()


def capture_in_process(job: Job, *, most_nodes: int | None = None) -> CapturedStep:
    """Capture a job here and now; imports torch and the library that defines the model.

    Parameters
    ----------
    job : Job
        With a named model or a transformers config.
    most_nodes : int or None
        Operators that its graph may have; None: any number.

    Raises
    ------
    InvalidInputError
        As :func:`perfmodel.zoo.resolve.capture_job`.
    CaptureBudgetError
        There are more operators.
    MissingExtraError
        torch or the model's library is not installed.
    """
    load_libraries(job)
    from perfmodel.capture.torch import capture
    from perfmodel.zoo.resolve import build_bundle, program_of, source_of

    bundle = build_bundle(job)
    program = program_of(bundle, job)
    graph = capture(program, source=source_of(bundle, job), most_nodes=most_nodes)
    return CapturedStep(graph=graph, tokens_per_sample=bundle.tokens_per_sample)


def shipped_or_captured(job: Job, *, most_nodes: int | None = None) -> CapturedStep:
    """Return the step of a job out of the shipped library, or capture it here and now.

    Known models need no torch. Parameters and errors as of :func:`capture_in_process`.
    """
    from perfmodel.zoo.shipped.shipped_graphs import shipped_graph

    found = shipped_graph(job, most_nodes=most_nodes)
    if found is None:
        return capture_in_process(job, most_nodes=most_nodes)
    return CapturedStep(graph=found.graph, tokens_per_sample=found.tokens_per_sample)


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
        from perfmodel.capture.torch import capture, copied_by_shape
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
    own, of_args, of_kwargs = copied_by_shape((bundle.module, bundle.args, bundle.kwargs))
    bundle = replace(bundle, module=own, args=of_args, kwargs=of_kwargs)
    usual = {"mode": "inference", "compiler": "inductor" if bundle.is_compiled else "eager"}
    stated = {**usual, **settings, "batch_size": bundle.samples}
    job = parse_job({**stated, "graph": "own"})
    one = replace(job, accumulation_steps=1)
    graph = capture(program_of(bundle, one), source=source_of(bundle, one))
    named = replace(as_it_computes(job, graph, settings), graph=graph.content_hash)
    step = CapturedStep(graph=graph, tokens_per_sample=bundle.tokens_per_sample)
    if not named.arithmetic.is_autocast:  # whose casts the capture has made
        step = asked_in(step, named.arithmetic)
    return PreparedJob(job=named, key=named.reference, step=with_batches(step, named))
