"""What the service is told and remembers, as calls: jobs, graphs, observations, operations.

An operation is a request that is answered later: begun now, waited for when there is time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar, Unpack

from perfmodel.client.forms import Job, Observation, WhichObservations
from perfmodel.client.protocol.messages import Call, Page, Task, listing, quoted, removal
from perfmodel.client.protocol.waiting import until_ended
from perfmodel.client.records import (
    ObservationsChanged,
    ObservationsRemoved,
    ObservationsTaken,
    Operation,
    RegisteredGraph,
    RegisteredJob,
    StoredGraph,
    StoredJob,
    StoredObservation,
)
from perfmodel.errors import InvalidInputError

T = TypeVar("T")

#: Most observations that the service takes at a time.
MOST_OBSERVATIONS = 2_000
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0


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
    return listing("/v1/jobs", StoredJob, "jobs", {"limit": limit, "cursor": cursor})


def upload_graph(
    graph: bytes | Mapping[str, Any],
    *,
    batch_size: int | None = None,
    mode: str | None = None,
    tokens_per_sample: int | None = None,
) -> Call[RegisteredGraph]:
    """Register a captured graph; jobs then refer to it by the ``graph`` of the answer.

    The graph is as ``perfmodel capture`` writes it; ``batch_size`` are the samples of the captured
    step, unless the graph says it.
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

    ``dimensions`` are the extents of dynamic ones.
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


def correct_graph(
    graph: str,
    *,
    mode: str | None = None,
    batch_size: int | None = None,
    tokens_per_sample: int | None = None,
) -> Call[StoredGraph]:
    """State anew how a registered graph was captured, by its hash; what is left out stays.

    The key that registered it may, and administrators. 0 ``tokens_per_sample``: a sample is no
    sequence.

    Raises
    ------
    NotFoundError
        It is not registered.
    """
    query = {"mode": mode, "batch_size": batch_size, "tokens_per_sample": tokens_per_sample}
    return Call(method="PATCH", path=f"/v1/graphs/{quoted(graph)}", kind=StoredGraph, query=query)


def graphs(*, limit: int = 100, cursor: str | None = None) -> Call[Page[StoredGraph]]:
    """List registered graphs, newest first, ``limit`` at a time."""
    return listing("/v1/graphs", StoredGraph, "graphs", {"limit": limit, "cursor": cursor})


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

    They go out in batches of 1 to 2,000. Sent twice, an observation counts once: by its ``key``, or
    by its content where it has none. So steps that took exactly as long need keys to count each.

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
    sending: Call[ObservationsTaken] = Call(
        method="POST", path="/v1/observations", kind=ObservationsTaken, large=True
    )
    taken: list[ObservationsTaken] = []
    while some := list(islice(observations, batch)):
        taken.append((yield replace(sending, body={"observations": some})))
    return _together(taken)


def observations(
    *, limit: int = 100, cursor: str | None = None, **which: Unpack[WhichObservations]
) -> Call[Page[StoredObservation]]:
    """List stored observations, newest first, ``limit`` at a time.

    Which, is said by any of ``job``, ``key``, ``reporter``, ``state``, ``before`` and ``after``.
    """
    query = {**which, "limit": limit, "cursor": cursor}
    return listing("/v1/observations", StoredObservation, "observations", query)


def remove_observations(**which: Unpack[WhichObservations]) -> Call[ObservationsRemoved]:
    """Remove observations for good: later answers are as if they had never been there.

    Which, is said as for ``observations``, by one word at least. A key of the scope ``admin``
    removes those of all, any other key what was sent with it.
    """
    return Call(method="DELETE", path="/v1/observations", kind=ObservationsRemoved, query=which)


def exclude_observations(**which: Unpack[WhichObservations]) -> Call[ObservationsChanged]:
    """Leave observations out that count; said as for ``remove_observations``.

    They count again once they are accepted.
    """
    return _move("excluded", which)


def accept_observations(**which: Unpack[WhichObservations]) -> Call[ObservationsChanged]:
    """Take observations in again that were left out; said as for ``remove_observations``.

    A key of the scope ``admin`` takes in what is quarantined, too.
    """
    return _move("accepted", which)


def _move(state: str, which: WhichObservations) -> Call[ObservationsChanged]:
    return Call(
        method="PATCH",
        path="/v1/observations",
        kind=ObservationsChanged,
        body={"state": state},
        query=which,
    )


def _together(taken: Sequence[ObservationsTaken]) -> ObservationsTaken:
    return ObservationsTaken(
        accepted=sum(one.accepted for one in taken),
        quarantined=sum(one.quarantined for one in taken),
        known=sum(one.known for one in taken),
        refused=sum(one.refused for one in taken),
        observations=tuple(one for some in taken for one in some.observations),
    )


@dataclass(frozen=True, kw_only=True)
class Begun(Generic[T]):
    """A call whose answer is to come, and its operation as it was when it was begun."""

    operation: Operation
    call: Call[T]


def begin(call: Call[T]) -> Task[Begun[T]]:
    """Let the service register a job or a graph, or answer a matrix, while nobody waits.

    A call is made by ``questions.matrix(jobs, placements)``, ``keeping.register_job(job)``...
    """
    later = replace(
        call, kind=Operation, tagged=False, headers={**call.headers, "Prefer": "respond-async"}
    )
    operation: Operation = yield later
    return Begun(operation=operation, call=call)


def wait(begun: Begun[T], *, timeout_s: float = 600.0) -> Task[T]:
    """Wait for the answer of a call that was begun.

    Raises
    ------
    TimedOutError
        It has not ended by then; it can be waited for again.
    ProblemError
        It failed.
    """
    now = yield from until_ended(
        operation(begun.operation.id),
        lambda one: f"Operation {one.id} is {one.state}",
        now=begun.operation,
        timeout_s=timeout_s,
        first_s=_FIRST_WAIT_S,
        longest_s=_LONGEST_WAIT_S,
    )
    # A failed one answers with its problem here, as the request itself would have.
    answer: T = yield replace(
        begun.call,
        method="GET",
        path=f"/v1/operations/{quoted(now.id)}/result",
        body=None,
        query={},
        tagged=False,
    )
    return answer


def operation(id: str) -> Call[Operation]:
    """Return how far an operation is."""
    return Call(method="GET", path=f"/v1/operations/{quoted(id)}", kind=Operation)


def operations(
    *,
    state: str | None = None,
    kind: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Operation]]:
    """List operations, newest first, ``limit`` at a time."""
    query = {"state": state, "kind": kind, "limit": limit, "cursor": cursor}
    return listing("/v1/operations", Operation, "operations", query)


def remove_operation(id: str) -> Call[bool]:
    """Stop and forget an operation; tells whether there was one."""
    return removal(f"/v1/operations/{quoted(id)}")
