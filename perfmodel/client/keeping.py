"""What the service is told and remembers, as calls: jobs, graphs, observations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from perfmodel.client.forms import Job, Observation
from perfmodel.client.messages import Call, Page, Task, quoted
from perfmodel.client.records import (
    ObservationsTaken,
    ObservationTaken,
    RegisteredGraph,
    RegisteredJob,
    StoredGraph,
    StoredJob,
    StoredObservation,
)
from perfmodel.errors import InvalidInputError

#: Most observations that the service takes at a time.
MOST_OBSERVATIONS = 2_000


def register_job(job: Job | Mapping[str, Any]) -> Call[RegisteredJob]:
    """Register a job; the ``ref`` of the answer stands for it from then on.

    The same job always has the same.
    """
    return Call(method="POST", path="/v1/jobs", kind=RegisteredJob, body={"job": job})


def job(ref: str) -> Call[StoredJob]:
    """Return a registered job.

    Raises
    ------
    NotFoundError
        There is none.
    """
    return Call(method="GET", path=f"/v1/jobs/{quoted(ref)}", kind=StoredJob)


def jobs(*, limit: int = 100, cursor: str | None = None) -> Call[Page[StoredJob]]:
    """List registered jobs, newest first, ``limit`` at a time."""
    return Call(
        method="GET",
        path="/v1/jobs",
        kind=StoredJob,
        listed="jobs",
        query={"limit": limit, "cursor": cursor},
        large=True,
    )


def upload_graph(
    graph: bytes | Mapping[str, Any],
    *,
    batch_size: int | None = None,
    mode: str | None = None,
    tokens_per_sample: int | None = None,
) -> Call[RegisteredGraph]:
    """Register a captured graph; jobs then refer to it by the ``graph`` of the answer.

    Parameters
    ----------
    graph : bytes or mapping
        As ``perfmodel capture`` writes it.
    batch_size : int or None
        Samples of the captured step, unless the graph says it.
    """
    query = {"batch_size": batch_size, "mode": mode, "tokens_per_sample": tokens_per_sample}
    body = graph if isinstance(graph, bytes) else dict(graph)
    return Call(method="POST", path="/v1/graphs", kind=RegisteredGraph, body=body, query=query)


def upload_onnx(
    onnx: bytes,
    *,
    batch_size: int,
    mode: str | None = None,
    optimizer: str | None = None,
    precision: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    tokens_per_sample: int | None = None,
) -> Call[RegisteredGraph]:
    """Register the graph of an ONNX file; its weights are ignored.

    Parameters
    ----------
    onnx : bytes
        The file.
    batch_size : int
        Samples of the step.
    dimensions : mapping of str to int or None
        Extents of dynamic dimensions.
    """
    query = {
        "batch_size": batch_size,
        "mode": mode,
        "optimizer": optimizer,
        "precision": precision,
        "dimensions": None if dimensions is None else json.dumps(dict(dimensions)),
        "tokens_per_sample": tokens_per_sample,
    }
    return Call(
        method="POST",
        path="/v1/graphs",
        kind=RegisteredGraph,
        body=onnx,
        media_type="application/octet-stream",
        query=query,
    )


def graphs(*, limit: int = 100, cursor: str | None = None) -> Call[Page[StoredGraph]]:
    """List registered graphs, newest first, ``limit`` at a time."""
    return Call(
        method="GET",
        path="/v1/graphs",
        kind=StoredGraph,
        listed="graphs",
        query={"limit": limit, "cursor": cursor},
        large=True,
    )


def graph(graph: str) -> Call[StoredGraph]:
    """Return what there is to say of a graph, by its hash."""
    return Call(method="GET", path=f"/v1/graphs/{quoted(graph)}", kind=StoredGraph, tagged=True)


def graph_json(graph: str) -> Call[Mapping[str, Any]]:
    """Return a whole graph, as ``perfmodel capture`` writes it."""
    return Call(
        method="GET",
        path=f"/v1/graphs/{quoted(graph)}",
        kind=Mapping[str, Any],
        query={"form": "json"},
        tagged=True,
        large=True,
    )


def observe(
    observations: Iterable[Observation | Mapping[str, Any]], *, batch: int = 500
) -> Task[ObservationsTaken]:
    """Send measured steps; what is answered is on disk.

    They go out in batches. Sent twice, an observation counts once: by its ``key``, or by its
    content where it has none. So steps that took exactly as long need keys to count each.

    Parameters
    ----------
    batch : int
        How many at a time, 1 to 2,000.

    Raises
    ------
    NoAnswerError
        A batch found no answer, or nothing in it can be read; those before it are kept, and all may
        be sent again.
    """
    if not 1 <= batch <= MOST_OBSERVATIONS:
        raise InvalidInputError(f"batch is 1 to {MOST_OBSERVATIONS}; got {batch}.")
    return _observe(iter(observations), batch)


def _observe(
    observations: Iterator[Observation | Mapping[str, Any]], batch: int
) -> Task[ObservationsTaken]:
    taken: list[ObservationsTaken] = []
    while some := list(islice(observations, batch)):
        taken.append(
            (
                yield Call(
                    method="POST",
                    path="/v1/observations",
                    kind=ObservationsTaken,
                    body={"observations": some},
                    large=True,
                )
            )
        )
    return _together(taken)


def observations(
    *,
    job: str | None = None,
    state: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[StoredObservation]]:
    """List stored observations, newest first.

    Parameters
    ----------
    job : str or None
        Reference: those of this job and of the same with other batches.
    state : str or None
        ``accepted`` or ``quarantined``.
    limit : int
        How many at a time.
    """
    return Call(
        method="GET",
        path="/v1/observations",
        kind=StoredObservation,
        listed="observations",
        query={"job": job, "state": state, "limit": limit, "cursor": cursor},
        large=True,
    )


def _together(taken: Sequence[ObservationsTaken]) -> ObservationsTaken:
    return ObservationsTaken(
        accepted=sum(one.accepted for one in taken),
        quarantined=sum(one.quarantined for one in taken),
        known=sum(one.known for one in taken),
        refused=sum(one.refused for one in taken),
        observations=_joined(taken),
    )


def _joined(taken: Sequence[ObservationsTaken]) -> tuple[ObservationTaken, ...]:
    return tuple(one for some in taken for one in some.observations)
