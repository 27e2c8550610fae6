"""Retrainings as calls: models that are learned anew, judged, and let serve or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.client.protocol.messages import Call, Page, Task, listing, quoted
from perfmodel.client.protocol.waiting import until_ended
from perfmodel.client.records import EnteredRetraining, Retraining, RetrainingLog

_FIRST_WAIT_S = 0.5


def retrain(
    model: str = "default", *, why: str = "", settings: Mapping[str, Any] | None = None
) -> Call[EnteredRetraining]:
    """Let a model be learned anew; where a retraining of it is open already, that one goes on."""
    body = {"model": model, "why": why, "settings": dict(settings or {})}
    return Call(method="POST", path="/v1/retrain", kind=EnteredRetraining, body=body)


def retraining(id: str) -> Call[Retraining]:
    """Return how far a retraining is, phase by phase, and what was decided."""
    return Call(method="GET", path=f"/v1/retrain/{quoted(id)}", kind=Retraining)


def retrainings(
    *, model: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[Page[Retraining]]:
    """List retrainings, newest first, ``limit`` at a time."""
    query = {"model": model, "limit": limit, "cursor": cursor}
    return listing("/v1/retrain", Retraining, "retrainings", query)


def retraining_log(id: str, *, after: int = 0, limit: int = 1_000) -> Call[RetrainingLog]:
    """Return what a retraining has said after a line, 0 for all of it, while it runs as well."""
    query = {"after": after, "limit": limit}
    path = f"/v1/retrain/{quoted(id)}/log"
    return Call(method="GET", path=path, kind=RetrainingLog, query=query)


def cancel_retraining(id: str) -> Call[Retraining]:
    """End a retraining without a result, wherever it runs."""
    return Call(method="DELETE", path=f"/v1/retrain/{quoted(id)}", kind=Retraining)


def wait_for_retraining(id: str, *, timeout_s: float = 86_400.0) -> Task[Retraining]:
    """Wait until nothing more comes of a retraining.

    Raises
    ------
    TimedOutError
        It has not ended by then; it can be waited for again.
    """
    return until_ended(
        retraining(id),
        lambda one: f"Retraining {id} is {one.state}",
        timeout_s=timeout_s,
        first_s=_FIRST_WAIT_S,
    )
