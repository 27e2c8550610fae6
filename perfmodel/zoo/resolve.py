"""From a Job to its module, its program and its graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfmodel.devices.extras import installed_version
from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.graph.hub_models.names import DENOISERS
from perfmodel.graph.hub_models.spoken_names import suggested_models
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import OWN_NAMES
from perfmodel.types import Mode
from perfmodel.zoo.name_check import check_timm_name
from perfmodel.zoo.references.reference import build_reference, check_reference
from perfmodel.zoo.size_check import check_size

if TYPE_CHECKING:
    from perfmodel.capture.program import Program
    from perfmodel.zoo.bundle import ModelBundle

#: What a model reference may start with.
PREFIXES = OWN_NAMES


def build_bundle(job: Job, *, device: str = "meta") -> ModelBundle:
    """Build the model that a job refers to, with one micro-batch of inputs.

    Parameters
    ----------
    job : Job
        With ``model`` or ``hf_config``; a registered graph has no module to build.
    device : str
        ``"meta"`` (shapes only, fast) or ``"cpu"`` (random weights and inputs).

    Raises
    ------
    InvalidInputError
        A field of the job that makes no sense; ``pointer`` says which.
    UnknownModelError
        A name that neither timm nor the zoo has.
    MissingExtraError
        The library that defines the model is not installed.
    """
    check_job(job)
    if job.hf_config is not None:
        from perfmodel.zoo.transformers.huggingface import build_huggingface

        return build_huggingface(
            job.hf_config,
            batch_size=job.batch_size,
            sequence_length=job.sequence_length,
            mode=job.mode,
            device=device,
        )
    prefix, _, name = (job.model or "").partition("/")
    if prefix == "timm":
        from perfmodel.zoo.timm import build_timm

        return build_timm(name, job.model_kwargs, batch_size=job.batch_size, device=device)
    return build_reference(
        name,
        job.model_kwargs,
        batch_size=job.batch_size,
        sequence_length=job.sequence_length,
        device=device,
    )


def build_program(job: Job, *, device: str = "meta") -> Program:
    """Build the runnable step of a job: model, loss, backward and optimizer as it asks for."""
    return program_of(build_bundle(job, device=device), job)


def program_of(bundle: ModelBundle, job: Job) -> Program:
    """Wrap a bundle into the step that a job asks for.

    Parameters
    ----------
    job : Job
        Gives mode, optimizer, precision, layout, accumulation and what is trained.
    """
    from perfmodel.capture.program import make_program

    try:
        return make_program(
            bundle.module,
            bundle.args,
            dict(bundle.kwargs),
            mode=job.mode,
            loss=bundle.loss,
            optimizer=job.optimizer,
            accumulation_steps=job.accumulation_steps,
            precision=job.arithmetic,
            memory_format=job.memory_format,
            activation_checkpointing=job.activation_checkpointing,
            adapter=job.adapter,
            frozen=job.frozen or (),
        )
    except InvalidInputError as error:
        # The program knows its own arguments only; here they are fields of the job.
        if error.pointer and not error.pointer.startswith("/job"):
            error.pointer = f"/job{error.pointer}"
        raise


def capture_job(job: Job) -> Graph:
    """Capture one step of a job as a Graph, without running it.

    The same job gives the same content hash, with any order of its keyword arguments.

    Returns
    -------
    Graph
        ``source`` names the model, its family and the library versions.

    Raises
    ------
    CaptureError
        The step cannot be captured, with the reason.
    """
    from perfmodel.capture.torch import capture

    bundle = build_bundle(job)
    return capture(program_of(bundle, job), source=source_of(bundle, job))


def source_of(bundle: ModelBundle, job: Job) -> dict[str, str]:
    """Return where a graph of this bundle comes from, for people."""
    source = {"model": bundle.name, "family": bundle.family, "mode": str(job.mode)}
    for library in ("torch", "timm", "transformers"):
        needed = library == "torch" or bundle.name.startswith(("timm/", "hf_config/"))
        if needed and (found := installed_version(library)):
            source[library] = found
    return source


def check_job(job: Job) -> None:
    """Refuse a job whose fields contradict each other or lie out of range.

    Raises
    ------
    InvalidInputError
        With a pointer to the field.
    """
    references = {"model": job.model, "hf_config": job.hf_config, "graph": job.graph}
    given = [key for key, value in references.items() if value is not None]
    if len(given) != 1:
        raise InvalidInputError(
            "A job names exactly one of model, hf_config and graph; got "
            f"{' and '.join(given) or 'none'}.",
            pointer="/job",
        )
    if job.graph is not None:
        raise InvalidInputError(
            "A registered graph is answered from the store; it has no model to build. "
            "Give model or hf_config instead.",
            pointer="/job/graph",
        )
    _check_count(job.batch_size, "batch_size", "samples")
    _check_count(job.accumulation_steps, "accumulation_steps", "micro-batches")
    if job.sequence_length is not None:
        _check_count(job.sequence_length, "sequence_length", "tokens")
    if job.mode is Mode.INFERENCE and job.accumulation_steps != 1:
        raise InvalidInputError(
            f"accumulation_steps is {job.accumulation_steps}, but inference accumulates no "
            "gradients. Use 1, or mode 'training'.",
            pointer="/job/accumulation_steps",
        )
    _check_model_reference(job)
    check_size(job)


def _check_model_reference(job: Job) -> None:
    if job.model is None:
        if job.model_kwargs:
            raise InvalidInputError(
                "model_kwargs belong to a named model; put the fields into hf_config.",
                pointer="/job/model_kwargs",
            )
        return
    if not job.model.startswith(PREFIXES):
        raise unknown_model(job.model)
    prefix, _, name = job.model.partition("/")
    (check_timm_name if prefix == "timm" else check_reference)(name)
    if job.model.startswith("timm/") and job.sequence_length is not None:
        raise InvalidInputError(
            f"{job.model} reads images; sequence_length does not apply. Leave it out.",
            pointer="/job/sequence_length",
        )


def unknown_model(name: str) -> UnknownModelError:
    """Return what is said of a name that no model has, with those that it may be meant for."""
    denoiser = DENOISERS.get(re.sub(r"[\s_]+", "-", name.casefold()))
    if denoiser is not None:
        return UnknownModelError(
            name,
            suggested=[denoiser],
            pointer="/job/model",
            hint="It is a pipeline of several models; that one is asked for every step of an "
            "image, and takes nearly all of the time.",
        )
    return UnknownModelError(
        name,
        suggested=suggested_models(name, others=known_models("zoo/")),
        pointer="/job/model",
        hint=f"A model name starts with {' or '.join(PREFIXES)}, or is that of an open model "
        "on its hub; of others give the config.json, an ONNX file, or a Python file and what it "
        "makes.",
    )


def _check_count(value: object, field: str, unit: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(
            f"{field} must be a whole number of {unit} >= 1, got {value!r}.",
            pointer=f"/job/{field}",
        )


def known_models(prefix: str = "") -> list[str]:
    """Return every model name that starts with a prefix, sorted.

    Parameters
    ----------
    prefix : str
        ``"timm/"``, ``"zoo/"``, ``"timm/resnet"``, or empty for all. timm is imported only
        where its names can match.
    """
    names: list[str] = []
    if _may_match(prefix, "zoo/"):
        from perfmodel.zoo.references.reference import reference_names

        names += [f"zoo/{name}" for name in reference_names()]
    if _may_match(prefix, "timm/"):
        from perfmodel.zoo.timm import timm_names

        names += [f"timm/{name}" for name in timm_names()]
    return sorted(name for name in names if name.startswith(prefix))


def _may_match(prefix: str, group: str) -> bool:
    return group.startswith(prefix) or prefix.startswith(group)
