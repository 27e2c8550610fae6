"""Observations of made-up jobs, as a store keeps them."""

from __future__ import annotations

from perfmodel.store.state.database import Database
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import ObservationState, StoredObservation
from perfmodel.store.state.observations import ObservationStore


def stored_job(name: str = "a", *, batch_size: int = 8) -> StoredJob:
    """Return a job of the family ``<name>``."""
    return StoredJob(
        ref=f"{name}-{batch_size}",
        family=name,
        content=f'{{"batch_size":{batch_size},"mode":"training","model":"{name}"}}',
    )


def stored_observation(
    key: str,
    *,
    job: StoredJob | None = None,
    placement: str = '"8xT4"',
    batch_size: int = 8,
    step_time_s: float = 0.5,
    reason: str | None = None,
    reporter: str = "",
    expires_in_s: float | None = None,
) -> StoredObservation:
    """Return an observation whose content is its step time; one with a reason is quarantined."""
    return StoredObservation(
        job=job or stored_job(),
        key=key,
        content_hash=f"{placement} {step_time_s}",
        placement=placement,
        batch_size=batch_size,
        accumulation_steps=1,
        step_time_s=step_time_s,
        sync_time_s=0.1,
        state=ObservationState.QUARANTINED if reason else ObservationState.ACCEPTED,
        reason=reason,
        reporter=reporter,
        expires_in_s=expires_in_s,
    )


def kept_keys(url: str) -> set[str]:
    """Return the keys of all observations of a database."""
    database = Database(url)
    store, keys, cursor = ObservationStore(database.connections), set(), None
    while True:
        page = store.page(limit=1_000, cursor=cursor)
        keys |= {seen.key for seen in page.items}
        cursor = page.next_cursor
        if cursor is None:
            break
    database.close()
    return keys
