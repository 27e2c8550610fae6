"""Read a job as decoded from JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.training_options.adapter import LowRankAdapter, frozen_patterns
from perfmodel.graph.training_options.mixed_precision import MixedPrecision
from perfmodel.json_values import (
    as_count,
    as_flag,
    as_known_text,
    as_number,
    as_object,
    as_text,
    as_word,
    refuse_not_json,
    refuse_unknown,
    shown,
)
from perfmodel.types import AttentionKernel, Compiler, Framework, MemoryFormat, Mode, Precision

#: Optimizers whose step can be captured by name.
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adafactor", "lamb")

#: Compilers that train nothing, and what people call them.
_INFERENCE_ONLY = {Compiler.TENSORRT: "TensorRT", Compiler.OPENVINO: "OpenVINO"}

#: What people call weights of four bits, and methods that make them.
_FOUR_BITS = frozenset(
    {"fp4", "nvfp4", "mxfp4", "nf4", "int4", "uint4", "w4a16", "awq", "gptq", "4bit", "4-bit"}
)

#: What ``activation_checkpointing`` may say besides true and false.
CHECKPOINTING = ("none", "selective", "full")

#: What ``input`` may say of a sample.
INPUT_FIELDS = ("stored_bytes", "cpu_s", "files")
#: No sample costs more of anything; with far larger numbers a step would be longer than floats are.
_MOST_SAMPLE_COST = 1e15

#: What ``adaptation`` says of a job's progress; the first three have to be there.
ADAPTATION_FIELDS = (
    "gradient_noise_scale", "initial_batch_size", "batch_size_bounds", "most_accumulation",
)  # fmt: skip
#: Micro-batches of a step that are tried at most: each of their numbers is, with many batches.
MOST_MICRO_BATCHES = 1_000

#: Versions of software that a job names at most, and bytes of its configuration as JSON.
MOST_VERSIONS, MAX_BYTES = 32, 2**20
#: What names of models begin with that are no names of a hub.
OWN_NAMES = ("timm/", "zoo/")

#: What a job may be told by, one of them.
REFERENCES = ("model", "hf_config", "graph", "job_type")
_JOB_FIELDS = tuple(field.name for field in dataclasses.fields(Job))


def parse_job(value: object, *, pointer: str = "/job") -> Job:
    """Read a job as decoded from JSON.

    The model is referred to as ``"model": "timm/resnet50"`` (or ``"gpt2"``, the name of an open
    model as people say it, which stands for its configuration), ``"hf_config": {...}`` or
    ``"graph": "<hash>"``; the latter two may also stand inside ``model``. A job without a graph
    states its ``"job_type"`` and is answered from observations. ``mode``,
    ``batch_size`` and the model must be given; everything else has the default of
    :class:`~perfmodel.graph.job.Job`.

    Parameters
    ----------
    pointer : str
        JSON pointer to the job in the request; errors point below it.

    Raises
    ------
    InvalidInputError
        A field that is missing, unknown or out of range; ``pointer`` says which.

    Examples
    --------
    >>> parse_job({"model": "timm/resnet50", "mode": "inference", "batch_size": 0})
    Traceback (most recent call last):
    perfmodel.errors.InvalidInputError: batch_size must be a whole number from 1 to 16777216; got 0.
    """
    fields = _spread_hub_name(_spread_reference(as_object(value, pointer, what="A job"), pointer))
    refuse_unknown(fields, _JOB_FIELDS, pointer)
    # null means the default everywhere but where a value has to be given.
    given = {name: item for name, item in fields.items() if item is not None}
    _spread_checkpointing(given)
    _check_reference(given, pointer)
    for name in ("mode", "batch_size"):
        if name not in given:
            raise InvalidInputError(f"A job needs the field {name!r}.", pointer=f"{pointer}/{name}")
    job = Job(**{name: _read(name, item, f"{pointer}/{name}") for name, item in given.items()})
    _check_agreement(job, pointer)
    return job


def stated_job(plain: Mapping[str, Any]) -> Job:
    """Return the job of which :func:`stated_fields` says this; what is left out has its default.

    Raises
    ------
    InvalidInputError
        As :func:`parse_job`.
    """
    return parse_job({**stated_fields(Job()), **plain})


def _spread_reference(fields: Mapping[str, Any], pointer: str) -> Mapping[str, Any]:
    """Move ``{"model": {"graph": ...}}`` up to ``{"graph": ...}``."""
    model = fields.get("model")
    if not isinstance(model, Mapping):
        return fields
    inside = f"{pointer}/model"
    refuse_unknown(model, ("hf_config", "graph"), inside)
    twice = [name for name in model if fields.get(name) is not None]
    if len(model) != 1 or twice:
        raise InvalidInputError(
            "model must hold exactly one of hf_config and graph, given once.", pointer=inside
        )
    return {**{name: item for name, item in fields.items() if name != "model"}, **model}


def _spread_hub_name(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the configuration of an open model in the place of the name that people give it.

    Keywords of the model are fields of its configuration that are to be others.
    """
    model = fields.get("model")
    if not isinstance(model, str) or model.startswith(OWN_NAMES):
        return fields
    # Imported here: most jobs name no model of a hub.
    from perfmodel.graph.hub_models.names import hub_model
    from perfmodel.graph.hub_models.spoken_names import spoken_model

    name = spoken_model(model)
    if name is None:
        return fields
    found = hub_model(name)
    if found is None:
        return {**fields, "model": name}
    keywords = fields.get("model_kwargs") or {}
    if fields.get("hf_config") is not None or not isinstance(keywords, Mapping):
        return fields
    others = {name: item for name, item in fields.items() if name not in ("model", "model_kwargs")}
    return {**others, "hf_config": {**found.config, **keywords}}


def _spread_checkpointing(given: dict[str, Any]) -> None:
    """Put the words for checkpointing in terms of the two flags of a job."""
    word = given.get("activation_checkpointing")
    if word in CHECKPOINTING:
        given["activation_checkpointing"] = word == "full"
        if word == "selective":
            given["selective_checkpointing"] = True


def _check_reference(given: Mapping[str, Any], pointer: str) -> None:
    named = [name for name in REFERENCES if name in given]
    if len(named) != 1:
        raise InvalidInputError(
            f"A job needs exactly one of {', '.join(REFERENCES)}; got "
            f"{' and '.join(named) or 'none'}.",
            pointer=pointer if named else f"{pointer}/model",
        )
    if "model_kwargs" in given and "model" not in given:
        raise InvalidInputError(
            f"model_kwargs belong to a named model, but the job refers to its {named[0]}.",
            pointer=f"{pointer}/model_kwargs",
        )


def _precision(value: Any, pointer: str) -> Precision:
    if isinstance(value, str) and value.strip().lower() in _FOUR_BITS:
        raise InvalidInputError(
            f"precision {value!r} keeps weights in four bits, which is answered of no job, nor of "
            "a base that an adapter is trained on (QLoRA). `perfmodel kernel gemm --precision "
            "nvfp4` answers single products; fp8 and int8 are the narrowest of a job.",
            pointer=pointer,
            allowed=tuple(one.value for one in Precision),
        )
    return as_word(Precision, "precision", value, pointer)


def _check_agreement(job: Job, pointer: str) -> None:
    if job.mode is Mode.INFERENCE and job.accumulation_steps != 1:
        raise InvalidInputError(
            f"accumulation_steps is {job.accumulation_steps}, but inference accumulates no "
            "gradients. Leave it out, or use the mode 'training'.",
            pointer=f"{pointer}/accumulation_steps",
        )
    if job.mode is Mode.TRAINING and job.compiler in _INFERENCE_ONLY:
        raise InvalidInputError(
            f"{_INFERENCE_ONLY[job.compiler]} executes inference only; train with 'eager' or "
            "'inductor'.",
            pointer=f"{pointer}/compiler",
            allowed=tuple(c.value for c in Compiler if c not in _INFERENCE_ONLY),
        )
    _check_training_options(job, pointer)
    if job.script is not None and job.job_type is not None:
        raise InvalidInputError(
            "script says how far steps are from those that are predicted of a model; of a job type "
            "nothing but its observations is known. Leave it out.",
            pointer=f"{pointer}/script",
        )
    if job.script and job.mode is Mode.INFERENCE:
        raise InvalidInputError(
            "How much longer scripts take than their steps is known of training alone; leave "
            "script out, or use the mode 'training'.",
            pointer=f"{pointer}/script",
        )


def _check_training_options(job: Job, pointer: str) -> None:
    for name in ("mixed_precision", "adapter", "frozen"):
        if getattr(job, name) is None:
            continue
        if job.mode is not Mode.TRAINING:
            raise InvalidInputError(
                f"{name} says how a job trains, and inference trains nothing. Leave it out, or use "
                "the mode 'training'.",
                pointer=f"{pointer}/{name}",
            )
        if job.job_type is not None or (job.graph is not None and name != "mixed_precision"):
            raise InvalidInputError(
                f"{name} needs a model that can be captured with it; this job refers to its "
                f"{'graph' if job.graph else 'job_type'}. Name the model.",
                pointer=f"{pointer}/{name}",
            )
    if job.mixed_precision and job.precision not in (Precision.FP32, Precision.TF32):
        raise InvalidInputError(
            "With mixed_precision weights are kept in fp32, so that precision is fp32 (or tf32); "
            f"got {job.precision.value}. Leave precision out.",
            pointer=f"{pointer}/precision",
            allowed=("fp32", "tf32"),
        )


def _read(name: str, value: object, pointer: str) -> Any:
    """Read one field of a job by its name."""
    match name:
        case "model" | "graph" | "job_type":
            return as_text(name, value, pointer)
        case "input":
            return _sample_costs(value, pointer)
        case "adaptation":
            return _adaptation(value, pointer)
        case "hf_config" | "model_kwargs":
            found = as_object(value, pointer, what=name)
            refuse_not_json(found, pointer)
            _check_bytes(name, found, pointer)
            return dict(found)
        case "batch_size" | "accumulation_steps" | "sequence_length":
            return as_count(name, value, pointer)
        case "mode":
            return as_word(Mode, name, value, pointer)
        case "precision":
            return _precision(value, pointer)
        case "memory_format":
            return as_word(MemoryFormat, name, value, pointer)
        case "compiler":
            return as_word(Compiler, name, value, pointer)
        case "optimizer":
            return as_known_text(name, value, OPTIMIZERS, pointer)
        case "activation_checkpointing":
            if not isinstance(value, bool):
                raise InvalidInputError(
                    "activation_checkpointing must be true or false, or one of "
                    f"{', '.join(CHECKPOINTING)}; got {shown(value)}.",
                    pointer=pointer,
                    allowed=CHECKPOINTING,
                )
            return value
        case "mixed_precision":
            return MixedPrecision.read(value, pointer)
        case "adapter":
            return LowRankAdapter.read(value, pointer)
        case "frozen":
            return frozen_patterns(value, pointer)
        case "selective_checkpointing" | "script":
            return as_flag(name, value, pointer)
        case "software":
            versions = as_object(value, pointer, what=name)
            if len(versions) > MOST_VERSIONS:
                raise InvalidInputError(
                    f"software names {len(versions)} versions; at most {MOST_VERSIONS} are kept. "
                    "Name those that change how fast a step is.",
                    pointer=pointer,
                )
            return {key: _version(key, item, f"{pointer}/{key}") for key, item in versions.items()}
    raise AssertionError(f"job field {name!r} has no reader")


def _check_bytes(name: str, value: Mapping[str, Any], pointer: str) -> None:
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError as error:
        raise InvalidInputError(f"{name} cannot be kept: {error}.", pointer=pointer) from error
    if size > MAX_BYTES:
        raise InvalidInputError(
            f"{name} has {size} bytes as JSON; at most {MAX_BYTES} are kept.", pointer=pointer
        )


#: What software says by one of a few words.
_WORDS: Mapping[str, type[StrEnum]] = MappingProxyType(
    {"framework": Framework, "attention": AttentionKernel}
)


def _version(name: str, value: object, pointer: str) -> str:
    as_text("The name of a version", name, pointer)
    if name in _WORDS:
        return as_word(_WORDS[name], name, value, pointer).value
    version = as_text(name, value, pointer)
    if name == "torch" and not version[0].isdigit():
        raise InvalidInputError(
            f'torch is a version such as "2.9.1"; got {shown(value)}. Leave it out if it is not '
            "known.",
            pointer=pointer,
        )
    return version


def _sample_costs(value: object, pointer: str) -> dict[str, float]:
    fields = as_object(value, pointer, what="input", known=INPUT_FIELDS)
    costs = {
        name: as_number(name, item, f"{pointer}/{name}", least=0.0) for name, item in fields.items()
    }
    for name, cost in costs.items():
        if cost > _MOST_SAMPLE_COST:
            raise InvalidInputError(
                f"{name} is what one sample costs, at most {_MOST_SAMPLE_COST:g}; got {cost:g}.",
                pointer=f"{pointer}/{name}",
            )
    return costs


def _adaptation(value: object, pointer: str) -> dict[str, Any]:
    fields = as_object(value, pointer, what="adaptation", known=ADAPTATION_FIELDS)
    for name in ADAPTATION_FIELDS[:3]:
        if name not in fields:
            raise InvalidInputError(f"adaptation needs {name!r}.", pointer=f"{pointer}/{name}")
    bounds, at = fields["batch_size_bounds"], f"{pointer}/batch_size_bounds"
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise InvalidInputError(
            f"batch_size_bounds is [smallest, largest]; got {shown(bounds)}.", pointer=at
        )
    low, high = (as_count("batch_size_bounds", bound, at) for bound in bounds)
    if low > high:
        raise InvalidInputError(
            f"batch_size_bounds goes from the smallest to the largest; got {shown(bounds)}.",
            pointer=at,
        )
    noise, initial = fields["gradient_noise_scale"], fields["initial_batch_size"]
    read: dict[str, Any] = {
        "gradient_noise_scale": as_number(
            "gradient_noise_scale", noise, f"{pointer}/gradient_noise_scale", least=0.0
        ),
        "initial_batch_size": as_count(
            "initial_batch_size", initial, f"{pointer}/initial_batch_size"
        ),
        "batch_size_bounds": (low, high),
    }
    if "most_accumulation" in fields:
        stated, at = fields["most_accumulation"], f"{pointer}/most_accumulation"
        read["most_accumulation"] = as_count(
            "most_accumulation", stated, at, most=MOST_MICRO_BATCHES
        )
    return read
