"""Read a query as decoded from JSON: the same schema for the command line, Python and HTTP."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from perfmodel.errors import InvalidInputError, UnknownFieldError, UnknownWordError
from perfmodel.graph.job import Job
from perfmodel.placement.parse import parse_placement
from perfmodel.placement.topology import Placement
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

#: Optimizers whose step can be captured by name.
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adafactor", "lamb")

#: Largest batch, accumulation or sequence that is taken for meant.
MAX_COUNT = 2**24

#: Nesting of ``model_kwargs`` and ``hf_config`` beyond which a request is refused.
MAX_DEPTH = 20

_REQUEST_FIELDS = ("job", "placement")
_REFERENCES = ("model", "hf_config", "graph")
_JOB_FIELDS = tuple(field.name for field in dataclasses.fields(Job))

_Word = TypeVar("_Word", bound=StrEnum)


def parse_request(request: object) -> tuple[Job, Placement]:
    """Read one query: a job and where it runs.

    Parameters
    ----------
    request : mapping
        ``{"job": {...}, "placement": {...} or "8xA100-SXM4-80GB"}`` as decoded from JSON.

    Returns
    -------
    job : Job
    placement : Placement

    Raises
    ------
    InvalidInputError
        A field that is missing, unknown or out of range; ``pointer`` says which.

    Examples
    --------
    >>> job, placement = parse_request({
    ...     "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    ...     "placement": "8xA100-SXM4-80GB"})
    >>> job.batch_size, placement.accelerator_count
    (64, 8)
    """
    fields = _object(request, "", what="A request")
    _refuse_unknown(fields, _REQUEST_FIELDS, "")
    for name in _REQUEST_FIELDS:
        if name not in fields:
            raise InvalidInputError(f"A request needs the field {name!r}.", pointer=f"/{name}")
    return parse_job(fields["job"]), parse_placement(fields["placement"])


def parse_job(value: object, *, pointer: str = "/job") -> Job:
    """Read a job as decoded from JSON.

    The model is referred to as ``"model": "timm/resnet50"``, ``"hf_config": {...}`` or
    ``"graph": "<hash>"``; the latter two may also stand inside ``model``. ``mode``,
    ``batch_size`` and the model must be given; everything else has the default of
    :class:`~perfmodel.graph.job.Job`.

    Parameters
    ----------
    value : mapping
        The job.
    pointer : str
        JSON pointer to the job in the request; errors point below it.

    Returns
    -------
    Job

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
    fields = _spread_reference(_object(value, pointer, what="A job"), pointer)
    _refuse_unknown(fields, _JOB_FIELDS, pointer)
    # null means the default everywhere but where a value has to be given.
    given = {name: item for name, item in fields.items() if item is not None}
    _check_reference(given, pointer)
    for name in ("mode", "batch_size"):
        if name not in given:
            raise InvalidInputError(f"A job needs the field {name!r}.", pointer=f"{pointer}/{name}")
    job = Job(**{name: _read(name, item, f"{pointer}/{name}") for name, item in given.items()})
    _check_agreement(job, pointer)
    return job


def job_to_dict(job: Job) -> dict[str, Any]:
    """Return a job as plain JSON values; :func:`parse_job` reads it back as an equal job.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict
        Every field but unset model references and empty mappings.

    Examples
    --------
    >>> job = parse_job({"graph": "ab", "mode": "training", "batch_size": 2})
    >>> parse_job(job_to_dict(job)) == job
    True
    """
    plain: dict[str, Any] = {}
    for name in _JOB_FIELDS:
        value = getattr(job, name)
        if (name in _REFERENCES and value is None) or value == {}:
            continue
        if isinstance(value, Mapping):
            value = dict(value)
        plain[name] = value.value if isinstance(value, StrEnum) else value
    return plain


def _spread_reference(fields: Mapping[str, Any], pointer: str) -> Mapping[str, Any]:
    """Move ``{"model": {"graph": ...}}`` up to ``{"graph": ...}``."""
    model = fields.get("model")
    if not isinstance(model, Mapping):
        return fields
    inside = f"{pointer}/model"
    _refuse_unknown(model, ("hf_config", "graph"), inside)
    twice = [name for name in model if fields.get(name) is not None]
    if len(model) != 1 or twice:
        raise InvalidInputError(
            "model must hold exactly one of hf_config and graph, given once.", pointer=inside
        )
    return {**{name: item for name, item in fields.items() if name != "model"}, **model}


def _check_reference(given: Mapping[str, Any], pointer: str) -> None:
    named = [name for name in _REFERENCES if name in given]
    if len(named) != 1:
        raise InvalidInputError(
            f"A job needs exactly one of {', '.join(_REFERENCES)}; got "
            f"{' and '.join(named) or 'none'}.",
            pointer=pointer if named else f"{pointer}/model",
        )
    if "model_kwargs" in given and "model" not in given:
        raise InvalidInputError(
            f"model_kwargs belong to a named model, but the job refers to its {named[0]}.",
            pointer=f"{pointer}/model_kwargs",
        )


def _check_agreement(job: Job, pointer: str) -> None:
    if job.mode is Mode.INFERENCE and job.accumulation_steps != 1:
        raise InvalidInputError(
            f"accumulation_steps is {job.accumulation_steps}, but inference accumulates no "
            "gradients. Leave it out, or use the mode 'training'.",
            pointer=f"{pointer}/accumulation_steps",
        )


def _read(name: str, value: object, pointer: str) -> Any:
    """Read one field of a job by its name."""
    match name:
        case "model" | "graph":
            return _text(name, value, pointer)
        case "hf_config" | "model_kwargs":
            found = _object(value, pointer, what=name)
            _refuse_not_json(found, pointer)
            return dict(found)
        case "batch_size" | "accumulation_steps" | "sequence_length":
            return _count(name, value, pointer)
        case "mode":
            return _word(Mode, name, value, pointer)
        case "precision":
            return _word(Precision, name, value, pointer)
        case "memory_format":
            return _word(MemoryFormat, name, value, pointer)
        case "compiler":
            return _word(Compiler, name, value, pointer)
        case "optimizer":
            return _known_text(name, value, OPTIMIZERS, pointer)
        case "activation_checkpointing":
            return _flag(name, value, pointer)
        case "software":
            versions = _object(value, pointer, what=name)
            return {key: _text(key, item, f"{pointer}/{key}") for key, item in versions.items()}
    raise AssertionError(f"job field {name!r} has no reader")


def _object(value: object, pointer: str, *, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{what} must be an object; got {_shown(value)}.", pointer=pointer)
    return value


def _text(name: str, value: object, pointer: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(
            f"{name} must be a text that is not empty; got {_shown(value)}.", pointer=pointer
        )
    return value


def _count(name: str, value: object, pointer: str) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 1 <= value <= MAX_COUNT:  # type: ignore[operator]
        raise InvalidInputError(
            f"{name} must be a whole number from 1 to {MAX_COUNT}; got {_shown(value)}.",
            pointer=pointer,
        )
    return int(value)  # type: ignore[call-overload,no-any-return]


def _flag(name: str, value: object, pointer: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(
            f"{name} must be true or false; got {_shown(value)}.", pointer=pointer
        )
    return value


def _word(kind: type[_Word], name: str, value: object, pointer: str) -> _Word:
    return kind(_known_text(name, value, [word.value for word in kind], pointer))


def _known_text(name: str, value: object, known: Sequence[str], pointer: str) -> str:
    text = _text(name, value, pointer)
    if text not in known:
        raise UnknownWordError(text, field=name, known=known, pointer=pointer)
    return text


def _refuse_unknown(fields: Mapping[str, Any], known: Sequence[str], pointer: str) -> None:
    for name in fields:
        if name not in known:
            raise UnknownFieldError(str(name), known=known, pointer=f"{pointer}/{name}")


def _refuse_not_json(value: object, pointer: str, depth: int = 0) -> None:
    """Refuse NaN, infinities, non-JSON values and excessive nesting anywhere below a field."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"Nested deeper than {MAX_DEPTH} levels.", pointer=pointer)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError(f"A number must be finite; got {value}.", pointer=pointer)
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_not_json(item, f"{pointer}/{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _refuse_not_json(item, f"{pointer}/{position}", depth + 1)
    elif not (value is None or isinstance(value, str | int | float)):
        raise InvalidInputError(f"Not a JSON value: {type(value).__name__}.", pointer=pointer)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
