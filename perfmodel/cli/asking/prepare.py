"""Turn what a user named into a job: named models, ONNX files and captured graphs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.asking.captured_settings import job_of_graph, noted, settings_of
from perfmodel.cli.options import refuse_options
from perfmodel.cli.subjects import Subject, job_of, parse_json, read_config, read_dims, read_subject
from perfmodel.errors import InvalidInputError
from perfmodel.graph.in_precision import as_it_computes
from perfmodel.graph.job import Job, job_to_dict
from perfmodel.json_values import as_object
from perfmodel.types import Compiler

if TYPE_CHECKING:
    from perfmodel.graph.ir import Graph

#: Options of named models, and of programs that are built here, which an ONNX file is not.
_UNREAD_BY_FILES = ("sequence_length", "model_kwargs")
_UNREAD_BY_ONNX = (
    "accumulation_steps", "activation_checkpointing", "selective_checkpointing", "mixed_precision",
    "adapter", "frozen", "memory_format",
)  # fmt: skip


def read_question(
    subject: str | None, placement: str | None, settings: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Graph | None]:
    """Return the request that a command line makes, and its graph where that comes from a file.

    The subject is a model, a file, or ``-`` for standard input; unless it is a whole request, it
    needs a placement. The settings are what :func:`perfmodel.cli.options.question_options` adds.

    Raises
    ------
    click.UsageError
        There is no placement.
    InvalidInputError
        A request that cannot be read, or names its placement beside ``--on``.
    """
    request: Any = None
    if subject == "-":
        sent = parse_json(sys.stdin.buffer.read(), source="Standard input")
        request = as_object(sent, "", what="A request")
    else:
        read = subject_of(subject, settings)
        request = read.request
    if request is not None:
        if placement is not None:
            raise InvalidInputError("The request names its placement; leave --on out.")
        refuse_options(settings, "The request says")
        return request, None
    if placement is None:
        raise click.UsageError("Say where it runs: --on 8xA100-SXM4-80GB, or --on local.")
    job, graph = prepare_job(read, settings)
    return {"job": job_to_dict(job), "placement": placement}, graph


def read_model(
    subject: str | None, settings: Mapping[str, Any], *, refusal: str
) -> tuple[Job, Graph | None]:
    """Return the job that a MODEL stands for, and its graph where that comes from a file.

    Raises
    ------
    InvalidInputError
        With the ``refusal`` where the subject is a whole request.
    """
    read = subject_of(subject, settings)
    if read.request is not None:
        raise InvalidInputError(refusal)
    return prepare_job(read, settings)


def subject_of(subject: str | None, settings: Mapping[str, Any]) -> Subject:
    """Return what a command line names, as MODEL or with ``--config``.

    Raises
    ------
    click.UsageError
        Neither, or both.
    """
    config = settings["config"]
    if (subject is None) == (config is None):
        which = "; not both." if config else "."
        raise click.UsageError(
            f"Name a model, or give its transformers config with --config FILE{which}"
        )
    if config is not None:
        if settings["model_kwargs"]:
            raise click.UsageError("Change the fields of the config instead of --model-kwarg.")
        return read_config(config)
    assert subject is not None
    return read_subject(subject, settings["model_kwargs"])


def prepare_job(subject: Subject, settings: Mapping[str, Any]) -> tuple[Job, Graph | None]:
    """Return the job that a user asks about, and its graph where the subject is a file of one."""
    if subject.reference:
        refuse_file_options(settings)
        return job_of(subject.reference, settings), None
    if subject.graph is not None:
        refuse_file_options(settings)
        return job_of_graph(subject.graph, settings), subject.graph
    graph = capture_file(subject, settings)
    return job_of({"graph": graph.content_hash, **settings_of(graph)}, settings), graph


def capture_file(subject: Subject, settings: Mapping[str, Any]) -> Graph:
    """Capture an ONNX file, or a model of a Python file, with the options of a command.

    Raises
    ------
    UnsupportedOnnxError
        As :func:`perfmodel.capture.onnx.capture_onnx`.
    CaptureError
        What a Python file makes cannot be captured.
    InvalidInputError
        An option that does not apply to a file, or a dimension that is no whole number.
    """
    job = job_of({"graph": "file"}, settings)
    _refuse_unread(job, settings, _UNREAD_BY_FILES)
    if subject.python is not None:
        return _capture_python(*subject.python, job, settings)
    from perfmodel.capture.onnx import capture_onnx, samples_of

    assert subject.onnx is not None
    _refuse_unread(job, settings, _UNREAD_BY_ONNX)
    if settings["inputs"] is not None:
        raise InvalidInputError("--inputs is for a Python file; an .onnx file states its own.")
    batch_size = settings.get("batch_size")
    graph = capture_onnx(
        subject.onnx,
        dimensions=read_dims(settings["dims"]),
        batch_size=batch_size,
        mode=job.mode,
        optimizer=job.optimizer,
        precision=job.precision if settings.get("precision") else None,
    )
    counted = replace(job, batch_size=samples_of(graph, batch_size))
    return noted(graph, as_it_computes(counted, graph, settings))


def _refuse_unread(job: Job, settings: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse options that the capture of a file does not read."""
    for name in names:
        given = settings["model_kwargs"] if name == "model_kwargs" else getattr(job, name)
        if given and given != getattr(Job, name, None):
            option = "--model-kwarg" if name == "model_kwargs" else f"--{name.replace('_', '-')}"
            raise InvalidInputError(
                f"{option} does not apply to a file of this kind. Leave it out; --inputs and --dim "
                "say how long the inputs are, and what else the file says is as it is.",
                pointer=f"/job/{name}",
            )


def _capture_python(path: Path, name: str, job: Job, settings: Mapping[str, Any]) -> Graph:
    """Capture what a Python file calls by a name; the file runs in this process."""
    from perfmodel.capture.torch import capture
    from perfmodel.zoo.own_module import bundle_of_file
    from perfmodel.zoo.resolve import program_of, source_of

    if settings["dims"]:
        raise InvalidInputError("--dim binds dimensions of an .onnx file; this is none.")
    batch_size = settings.get("batch_size")
    bundle = bundle_of_file(path, name, inputs=settings["inputs"], batch_size=batch_size)
    asked = replace(job, batch_size=bundle.samples)
    if bundle.is_compiled and settings["compiler"] is None:
        asked = replace(asked, compiler=Compiler.INDUCTOR)
    one = replace(asked, accumulation_steps=1)
    graph = capture(program_of(bundle, one), source=source_of(bundle, one))
    return noted(graph, as_it_computes(asked, graph, settings), bundle.tokens_per_sample)


def refuse_file_options(settings: Mapping[str, Any]) -> None:
    """Refuse ``--dim`` and ``--inputs`` where there is no file that they apply to."""
    if settings["dims"]:
        raise InvalidInputError("--dim binds dimensions of an .onnx file; this is none.")
    if settings["inputs"] is not None:
        raise InvalidInputError("--inputs gives the inputs of a Python file; this is none.")
