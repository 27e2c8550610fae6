"""Capture the step of a job in this process."""

from __future__ import annotations

import importlib

from perfmodel import errors
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.graph.job import Job


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
