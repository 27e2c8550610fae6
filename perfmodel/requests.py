"""Read a whole query as decoded from JSON: one schema for command line, Python and HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from perfmodel.errors import InvalidInputError, UnknownFieldError
from perfmodel.graph.job import Job, job_to_dict
from perfmodel.graph.job_form import (
    CHECKPOINTING,
    OPTIMIZERS,
    OWN_NAMES,
    REFERENCES,
    parse_job,
)
from perfmodel.json_values import MAX_COUNT, as_object, refuse_unknown
from perfmodel.placement.calibration.observation import (
    MOST_OBSERVATIONS,
    Observation,
    parse_matrix_observations,
    parse_observation,
    parse_observations,
    read_by_job,
)
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Placement

__all__ = [
    "CHECKPOINTING",
    "MAX_COUNT",
    "MOST_OBSERVATIONS",
    "OPTIMIZERS",
    "Query",
    "as_request",
    "job_to_dict",
    "parse_job",
    "parse_matrix_observations",
    "parse_observation",
    "parse_observations",
    "parse_query",
    "parse_request",
    "read_by_job",
]

_FIELDS = ("job", "placement", "observations")

#: What belongs into a job.
_OF_A_JOB = frozenset(field.name for field in fields(Job))

#: A part of a query and, of its job, the field; what a pointer says beyond that is a part of those.
_PART = re.compile(r"/(?P<name>[^/]+)(?:(?<=/job)/(?P<field>[^/]+))?")

#: What stands in the place of something that is wrong and must be there, to look for what else is.
_PLAIN_JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 1}
_PLAIN: dict[str, Any] = {"job": _PLAIN_JOB, "placement": "A100-SXM4-80GB", "observations": None}


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question; the observations are measured cells that count for its answer alone."""

    job: Job
    placement: Placement
    observations: tuple[Observation, ...] = ()


def parse_query(request: object, *, besides: Sequence[str] = ()) -> Query:
    """Read one query.

    Parameters
    ----------
    request : mapping
        ``{"job": {...}, "placement": {...} or "8xA100-SXM4-80GB", "observations": [...]}`` as
        decoded from JSON.
    besides : sequence of str
        Fields that the caller has read and taken out; named where one is unknown.

    Raises
    ------
    InvalidInputError
        A field that is missing, unknown or out of range; ``pointer`` says which, ``others`` what
        else is wrong.

    Examples
    --------
    >>> query = parse_query({
    ...     "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    ...     "placement": "8xT4",
    ...     "observations": [{"placement": "1xT4", "batch_size": 64, "step_time_s": 0.5}]})
    >>> query.observations[0].step_time_s
    0.5
    """
    try:
        return _query(request, besides)
    except InvalidInputError as error:
        if isinstance(request, Mapping):
            error.others = tuple(_others(request, error.pointer))
        raise


def as_request(value: object, known: Sequence[str]) -> Mapping[str, Any]:
    """Return the fields of a request; of one that belongs into its job a refusal says so.

    Examples
    --------
    >>> as_request({"model": "timm/resnet50", "placement": "T4"}, ("job", "placement"))
    Traceback (most recent call last):
    perfmodel.errors.UnknownFieldError: Unknown field 'model'. It is a field of a job: write it \
inside of that.
    """
    found = as_object(value, "", what="A request")
    for name in found:
        if name not in known and name in _OF_A_JOB:
            hint = "It is a field of a job: write it inside of that."
            raise UnknownFieldError(name, pointer=f"/{name}", hint=hint)
    refuse_unknown(found, known, "")
    return found


def _query(request: object, besides: Sequence[str] = ()) -> Query:
    fields = as_request(request, (*_FIELDS, *besides))
    for name in _FIELDS[:2]:
        if name not in fields:
            raise InvalidInputError(f"A request needs the field {name!r}.", pointer=f"/{name}")
    job = parse_job(fields["job"])
    if job.model is not None and not job.model.startswith(OWN_NAMES):
        # Imported here: it is a mistake, and seldom made.
        from perfmodel.zoo.resolve import unknown_model

        raise unknown_model(job.model)
    return Query(
        job=job,
        placement=parse_placement(fields["placement"]),
        observations=parse_observations(fields.get("observations"), job),
    )


def _others(request: Mapping[str, Any], known: str) -> Iterator[InvalidInputError]:
    """Say what is wrong besides what a pointer says.

    What is known to be wrong is taken out and the rest is read again, until that can be read or
    what is wrong with it is that something was taken out.
    """
    seen: set[str] = set()
    rest, pointer = request, known
    while (part := _PART.match(pointer)) is not None and part[0] not in seen:
        seen.add(part[0])
        rest = _without(rest, part["name"], part["field"])
        try:
            _query(rest)
        except InvalidInputError as error:
            pointer = error.pointer
            if (found := _PART.match(pointer)) is not None and found[0] not in seen:
                yield error
        else:
            return


def _without(request: Mapping[str, Any], name: str, field: str | None) -> dict[str, Any]:
    """Return a request without a field of its job, or with a plain one of its other parts."""
    job = request.get(name)
    if field is None or name != "job" or not isinstance(job, Mapping):
        return {**request, name: _PLAIN[name]} if name in _PLAIN else _left(request, name)
    # In the place of whatever refers to a model stands one, or it would be missing.
    plain = "model" if field in REFERENCES else field
    stood_in = {plain: _PLAIN_JOB[plain]} if plain in _PLAIN_JOB else {}
    return {**request, name: {**_left(job, field), **stood_in}}


def _left(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {other: value for other, value in fields.items() if other != name}


def parse_request(request: object) -> tuple[Job, Placement]:
    """Read one query without observations: a job and where it runs.

    Raises
    ------
    InvalidInputError
        As :func:`parse_query`, or observations, which this reader has no place for.

    Examples
    --------
    >>> job, placement = parse_request({
    ...     "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    ...     "placement": "8xA100-SXM4-80GB"})
    >>> job.batch_size, placement.accelerator_count
    (64, 8)
    """
    query = parse_query(request)
    if query.observations:
        raise InvalidInputError(
            "Observations are read by parse_query; this request is read as a job and a placement.",
            pointer="/observations",
        )
    return query.job, query.placement
