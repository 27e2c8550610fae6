"""Read the observations of a request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.json_values import as_object, as_text, refuse_unknown, shown
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import format_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.requests import parse_job, parse_observations
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observations import StoredObservation
from service.state.job_references import JobFinder, resolve_job_reference
from service.state.state import stored_job

#: Most observations of one request.
MOST_OBSERVATIONS = 2_000
#: Most characters of a key.
MOST_OF_A_KEY = 200

_MEASURED = ("placement", "batch_size", "accumulation_steps", "step_time_s", "sync_time_s")
_FIELDS = ("job", *_MEASURED, "key")


class SentObservation(NamedTuple):
    """An observation as it was sent, and as it is kept."""

    job: Job
    seen: Observation
    stored: StoredObservation


class ObservationReader:
    """Reads observations; a job and a placement that came before are not read again."""

    def __init__(self, jobs: JobFinder) -> None:
        self._finder = jobs
        self._jobs: LruCache[bytes, tuple[Job, StoredJob]] = LruCache(4_096)
        self._placements: LruCache[Placement, str] = LruCache(16_384)

    def read(self, value: object, pointer: str) -> SentObservation:
        """Read one observation.

        Parameters
        ----------
        value : mapping
            ``{"job": {...} or "<ref>", "placement": ..., "step_time_s": ...}``; ``batch_size`` and
            ``accumulation_steps`` are the job's, ``sync_time_s`` is not known and ``key`` is the
            hash of the content, unless they are given.
        """
        fields = as_object(value, pointer, what="An observation")
        refuse_unknown(fields, _FIELDS, pointer)
        if fields.get("job") is None:
            raise InvalidInputError(
                "An observation needs the field 'job'.", pointer=f"{pointer}/job"
            )
        job, stored = self._job(fields["job"], f"{pointer}/job")
        seen = _measured(fields, job, pointer)
        placement = self._placement(seen.placement)
        content = [
            stored.ref, placement, seen.batch_size, seen.accumulation_steps, seen.step_time_s,
            seen.sync_time_s,
        ]  # fmt: skip
        content_hash = hashlib.sha256(orjson.dumps(content)).hexdigest()[:32]
        key = fields.get("key")
        kept = StoredObservation(
            job=stored,
            key=content_hash if key is None else _key(key, f"{pointer}/key"),
            content_hash=content_hash,
            placement=placement,
            batch_size=seen.batch_size,
            accumulation_steps=seen.accumulation_steps,
            step_time_s=seen.step_time_s,
            sync_time_s=seen.sync_time_s,
        )
        return SentObservation(job, seen, kept)

    def _job(self, value: Any, pointer: str) -> tuple[Job, StoredJob]:
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        known = self._jobs.get(written)
        if known is None:
            job = parse_job(
                resolve_job_reference(value, self._finder, pointer=pointer), pointer=pointer
            )
            known = (job, stored_job(job))
            self._jobs.put(written, known)
        return known

    def _placement(self, placement: Placement) -> str:
        written = self._placements.get(placement)
        if written is None:
            written = orjson.dumps(
                format_placement(placement), option=orjson.OPT_SORT_KEYS
            ).decode()
            self._placements.put(placement, written)
        return written


def read_list(body: Any) -> list[Any]:
    """Return the list of observations of a body: the body itself, or its field of that name."""
    if isinstance(body, Mapping):
        refuse_unknown(body, ("observations",), "")
        body = body.get("observations")
    if not isinstance(body, list) or not body:
        raise InvalidInputError(
            "observations must be a list that is not empty.", pointer="/observations"
        )
    if len(body) > MOST_OBSERVATIONS:
        raise InvalidInputError(
            f"At most {MOST_OBSERVATIONS} observations at a time; got {len(body)}.",
            pointer="/observations",
        )
    return body


def _measured(fields: Mapping[str, Any], job: Job, pointer: str) -> Observation:
    measured = {name: fields[name] for name in _MEASURED if fields.get(name) is not None}
    measured.setdefault("batch_size", job.batch_size)
    measured.setdefault("accumulation_steps", job.accumulation_steps)
    try:
        return parse_observations([measured], pointer=pointer)[0]
    except InvalidInputError as error:
        # It was read as the only one of a list.
        error.pointer = pointer + error.pointer.removeprefix(f"{pointer}/0")
        raise


def _key(value: Any, pointer: str) -> str:
    key = as_text("key", value, pointer)
    if len(key) > MOST_OF_A_KEY or not key.isprintable():
        raise InvalidInputError(
            f"key has at most {MOST_OF_A_KEY} printable characters; got {shown(key)}.",
            pointer=pointer,
        )
    return key
