"""From the name that a pod gives its job to the job itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.lru import LruCache
from service.adapters.kubernetes.pods import JobName, Pod


class JobLookup(Protocol):
    """Where registered jobs are kept; the service puts one on ``app.state.job_lookup``."""

    def find(self, ref: str) -> Job | Mapping[str, Any] | None:
        """Return the job of a reference, or its JSON; None where nobody registered it.

        Called in a thread; may wait for a database.
        """


class JobGroups:
    """Remembers the jobs of groups of pods, for those pods of a group that carry no annotation.

    The launcher of a job often has the annotation and its workers do not.
    """

    def __init__(self) -> None:
        self._named: LruCache[tuple[str, str, str], JobName] = LruCache(4_096)

    def job_of(self, pod: Pod) -> JobName:
        """Return the job of a pod: its own, or that of its group."""
        if pod.group is None:
            return pod.job
        if pod.job:
            self._named.put(pod.group, pod.job)
            return pod.job
        return self._named.get(pod.group) or pod.job


def find_job(name: JobName, lookup: JobLookup | None) -> Job:
    """Return the job that a pod names.

    Parameters
    ----------
    name : JobName
        By JSON or reference.
    lookup : JobLookup or None
        None knows no references.

    Raises
    ------
    InvalidInputError
        JSON that is no job, or a reference that nobody registered.
    """
    if name.text is not None:
        try:
            return parse_job(orjson.loads(name.text))
        except orjson.JSONDecodeError as error:
            raise InvalidInputError(f"perfmodel/job is not JSON: {error}.") from error
    found = lookup.find(name.ref) if lookup is not None and name.ref is not None else None
    if found is None:
        raise InvalidInputError(f"No job is registered under {name.ref!r}.")
    return found if isinstance(found, Job) else parse_job(found)
