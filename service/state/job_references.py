"""Jobs by the reference that their registration was answered with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from perfmodel.errors import NotInTimeError, UnknownJobError
from perfmodel.graph.json_values import refuse_unknown
from perfmodel.lru import LruCache
from perfmodel.store.state.jobs import JobStore

_REFERENCE = re.compile(r"[0-9a-f]{32}")

#: What registered jobs that are remembered take together at most, as JSON.
_MOST_BYTES = 32 * 2**20


class _Known(NamedTuple):
    job: Mapping[str, Any]
    size_bytes: int


class JobReferences:
    """Finds registered jobs; what was found once is not read again, for it never changes."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self._known: LruCache[str, _Known] = LruCache(
            10_000, weigh=lambda ref, known: known.size_bytes, most_weight=_MOST_BYTES
        )

    def known(self, ref: str) -> Mapping[str, Any] | None:
        """Return a job that was looked up before, or None; never waits."""
        known = self._known.get(ref)
        return None if known is None else known.job

    def keep(self, ref: str, content: str) -> None:
        """Know a job that was just registered."""
        self._known.put(ref, _Known(orjson.loads(content), len(content)))

    def find(self, ref: str) -> Mapping[str, Any] | None:
        """Return a job as decoded JSON, or None where nobody registered it."""
        known = self._known.get(ref)
        if known is None and _REFERENCE.fullmatch(ref):
            stored = self._jobs.find(ref)
            if stored is not None:
                known = _Known(orjson.loads(stored.content), len(stored.content))
                self._known.put(ref, known)
        return None if known is None else known.job


class ReferencesInMemory:
    """Finds registered jobs that were looked up before; never waits for the database."""

    def __init__(self, references: JobReferences) -> None:
        self._references = references

    def find(self, ref: str) -> Mapping[str, Any]:
        """Return a job as decoded JSON.

        Raises
        ------
        NotInTimeError
            It was not looked up yet; perhaps nobody registered it.
        """
        known = self._references.known(ref)
        if known is None:
            raise NotInTimeError(
                f"The job {ref[:100]!r} was not looked up yet. Ask again: it is being looked up."
            )
        return known


#: Where registered jobs are.
JobFinder = JobReferences | ReferencesInMemory


def resolve_job_reference(value: Any, store: JobFinder, *, pointer: str = "/job") -> Any:
    """Return the job that a request means: a reference is looked up, all else is as it came.

    Parameters
    ----------
    value : object
        What stands where a job is expected: the job itself, ``"<ref>"`` or ``{"ref": "<ref>"}``.

    Raises
    ------
    UnknownJobError
        A reference that nobody registered.
    """
    ref = value
    if isinstance(value, Mapping) and isinstance(value.get("ref"), str):
        refuse_unknown(value, ("ref",), pointer)
        ref, pointer = value["ref"], f"{pointer}/ref"
    if not isinstance(ref, str):
        return value
    found = store.find(ref)
    if found is None:
        raise UnknownJobError(
            ref[:100],
            pointer=pointer,
            hint="Register it with POST /v1/jobs, or send the job itself.",
        )
    return found
