"""Bring what a user named to the estimator: named models, ONNX files and captured graphs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.subjects import Subject, job_of, parse_json, parse_pairs, read_subject
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.estimator import CapturedStep, Estimator, GraphSource
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job
    from perfmodel.requests import Query


class GivenGraph:
    """A source of graphs that knows one more than another source: the one from a file."""

    def __init__(self, graph: Graph, others: GraphSource) -> None:
        self._graph = graph
        self._others = others

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of a job."""
        from perfmodel.estimator import CapturedStep
        from perfmodel.estimator.jobs.graph_library import asked_in

        if job.graph == self._graph.content_hash:
            tokens = _noted_number(self._graph, "tokens_per_sample")
            step = CapturedStep(graph=self._graph, tokens_per_sample=tokens)
            return asked_in(step, job.precision)
        return self._others.step(job)


def read_question(
    estimator: Estimator, subject: str, placement: str | None, settings: Mapping[str, Any]
) -> tuple[Query, Estimator]:
    """Return the question that a command line asks, and an estimator that knows its graph.

    The subject is a model, a file, or ``-`` for standard input; unless it is a whole request, it
    needs a placement. The settings are what :func:`perfmodel.cli.options.question_options` adds.

    Raises
    ------
    click.UsageError
        There is no placement.
    InvalidInputError
        A request that cannot be read, or names its placement beside ``--on``.
    """
    from perfmodel.placement.topology.parse import parse_placement
    from perfmodel.requests import Query, parse_query

    request: Any = None
    if subject == "-":
        request = parse_json(sys.stdin.buffer.read(), source="Standard input")
    else:
        read = read_subject(subject, settings["model_kwargs"])
        request = read.request
    if request is not None:
        if placement is not None:
            raise InvalidInputError("The request names its placement; leave --on out.")
        return parse_query(request), estimator
    if placement is None:
        raise click.UsageError("Say where it runs: --on 8xA100-SXM4-80GB, or --on local.")
    job, knowing = prepare_question(estimator, read, settings)
    return Query(job=job, placement=parse_placement(placement)), knowing


def prepare_model(
    subject: str, settings: Mapping[str, Any], *, refusal: str
) -> tuple[Job, Estimator]:
    """Return the job that a MODEL stands for, and the installed estimator, which knows its graph.

    Raises
    ------
    InvalidInputError
        With the ``refusal`` where the subject is a whole request.
    """
    from perfmodel.estimator import Estimator

    read = read_subject(subject, settings["model_kwargs"])
    if read.request is not None:
        raise InvalidInputError(refusal)
    return prepare_question(Estimator.from_folder(settings["models"]), read, settings)


def prepare_question(
    estimator: Estimator, subject: Subject, settings: Mapping[str, Any]
) -> tuple[Job, Estimator]:
    """Return the job that a user asks about, and an estimator that knows its graph.

    It is the given estimator, unless the subject is a file with a graph.
    """
    if subject.reference:
        refuse_dims(settings["dims"])
        return job_of(subject.reference, settings), estimator
    from perfmodel.estimator import Estimator

    graph = subject.graph or capture_file(subject, settings)
    job = job_of({"graph": graph.content_hash, **settings_of(graph)}, settings)
    return job, Estimator(
        accelerators=estimator.accelerators,
        model=estimator.core.model,
        graphs=GivenGraph(graph, estimator.core.graphs),
        problems=estimator.problems,
    )


def capture_file(subject: Subject, settings: Mapping[str, Any]) -> Graph:
    """Capture an ONNX file with the options of a command.

    Raises
    ------
    UnsupportedOnnxError
        As :func:`perfmodel.capture.onnx.capture_onnx`.
    InvalidInputError
        An option that does not apply to a file, or a dimension that is no whole number.
    """
    from perfmodel.capture.onnx import capture_onnx

    assert subject.onnx is not None
    job = job_of({"graph": "file"}, settings)
    return capture_onnx(
        subject.onnx,
        dimensions=read_dims(settings["dims"]),
        batch_size=settings.get("batch_size"),
        mode=job.mode,
        optimizer=job.optimizer,
        precision=job.precision if settings.get("precision") else None,
    )


def settings_of(graph: Graph) -> dict[str, Any]:
    """Return the settings that a graph from ``perfmodel capture`` notes in its source."""
    noted: dict[str, Any] = {
        name: graph.source[name] for name in ("mode", "precision") if name in graph.source
    }
    batch_size = _noted_number(graph, "batch_size")
    return noted if batch_size is None else {**noted, "batch_size": batch_size}


def _noted_number(graph: Graph, name: str) -> int | None:
    text = graph.source.get(name, "")
    return int(text) if re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII) else None


def read_dims(dims: Sequence[str]) -> dict[str, int]:
    """Read ``NAME=VALUE`` pairs of dynamic dimensions.

    Raises
    ------
    InvalidInputError
        A value that is no whole number >= 1.

    Examples
    --------
    >>> read_dims(["seq=128"])
    {'seq': 128}
    """
    pairs = parse_pairs(dims, option="--dim")
    for name, value in pairs.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInputError(f"--dim {name} must be a whole number >= 1; got {value!r}.")
    return pairs


def refuse_dims(dims: Sequence[str]) -> None:
    """Refuse ``--dim`` where there is no ONNX file."""
    if dims:
        raise InvalidInputError("--dim binds dimensions of an .onnx file; this is none.")
