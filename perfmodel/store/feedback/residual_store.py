"""Residuals, as they are kept: one of each accepted observation, gone with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Row, Select, func, select, update

from perfmodel.store.feedback.keeper_lease import KeeperLease, Keeping
from perfmodel.store.feedback.residual_records import StoredResidual, Uncompared
from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import SharedStore, insert_new, record_from
from perfmodel.store.sql.tables import JOBS, OBSERVATIONS, RESIDUALS
from perfmodel.store.state.observation_records import IS_MEASURED, ObservationState
from perfmodel.store.state.observations import stored_observation

_RESIDUAL, _SEEN = RESIDUALS.c, OBSERVATIONS.c

#: Columns of a residual that are kept as they are.
_PLAIN = (
    "observation", "accelerator", "mode", "operators", "label", "model_version", "predicted_s",
    "low_s", "high_s", "model_s", "now_version", "now_s", "reason",
)  # fmt: skip


class Compared(NamedTuple):
    """How many accepted observations have a prediction beside them, cannot have, or wait."""

    compared: int
    left_out: int
    waiting: int


class ResidualStore(SharedStore):
    """Keeps residuals."""

    def uncompared(self, *, limit: int, after: int | None = None) -> tuple[Uncompared, ...]:
        """Return accepted observations without a residual, oldest first.

        What ran out of memory has no time that could be compared.

        Parameters
        ----------
        after : int or None
            Those of later rows alone, which takes no look at the others.
        """
        query = (
            select(OBSERVATIONS, JOBS.c.content.label("content"))
            .join(JOBS, _SEEN.job_ref == JOBS.c.ref)
            .where(_SEEN.state == ObservationState.ACCEPTED.value, IS_MEASURED)
            .order_by(_SEEN.id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(_SEEN.id > after)
        known = select(_RESIDUAL.id).where(_RESIDUAL.observation == _SEEN.id)
        return tuple(map(_uncompared, self._rows(query.where(~known.exists()))))

    def newest_number(self) -> int:
        """Return the newest observation that has a residual; 0 without any."""
        return int(self._column(select(func.max(_RESIDUAL.observation)))[0] or 0)

    def add(self, keeping: Keeping, residuals: Sequence[StoredResidual]) -> bool:
        """Keep residuals of observations that are still there, each once.

        Returns
        -------
        bool
            False where somebody else is the keeper by now; then none is kept.
        """
        with self._connections.writing() as connection:
            if not KeeperLease.holds(connection, keeping):
                return False
            numbers = [one.observation for one in residuals]
            there = select(_SEEN.id).where(_SEEN.id.in_(numbers))
            still = set(connection.execute(there).scalars())
            rows = [_row(one) for one in residuals if one.observation in still]
            insert_new(connection, RESIDUALS, rows, "observation")
        return True

    def after(self, observation: int, *, limit: int) -> tuple[StoredResidual, ...]:
        """Return residuals of later rows whose observations count, oldest first."""
        query = _counting().where(_RESIDUAL.observation > observation)
        return self._read(query.order_by(_RESIDUAL.observation).limit(limit))

    def newest(self, limit: int) -> tuple[StoredResidual, ...]:
        """Return the residuals of the newest observations that count, oldest first."""
        query = _counting().order_by(_RESIDUAL.observation.desc()).limit(limit)
        return tuple(reversed(self._read(query)))

    def outdated(self, version: str, *, among: int, limit: int) -> tuple[Uncompared, ...]:
        """Return observations among the newest that another version was asked about last."""
        oldest = select(_RESIDUAL.observation).order_by(_RESIDUAL.observation.desc())
        with self._connections.reading() as connection:
            first = connection.execute(oldest.limit(1).offset(among - 1)).scalar() or 0
            query = (
                select(OBSERVATIONS, JOBS.c.content.label("content"))
                .join(JOBS, _SEEN.job_ref == JOBS.c.ref)
                .join(RESIDUALS, _RESIDUAL.observation == _SEEN.id)
                .where(
                    _RESIDUAL.observation >= first,
                    _RESIDUAL.now_version != version,
                    _RESIDUAL.now_s.is_not(None),
                )
                .order_by(_SEEN.id.desc())
                .limit(limit)
            )
            return tuple(map(_uncompared, connection.execute(query)))

    def set_now(self, keeping: Keeping, version: str, found: Mapping[int, float | None]) -> bool:
        """Note what a version predicts of some observations; False where another is the keeper."""
        with self._connections.writing() as connection:
            if not KeeperLease.holds(connection, keeping):
                return False
            for observation, now_s in found.items():
                connection.execute(
                    update(RESIDUALS)
                    .where(_RESIDUAL.observation == observation)
                    .values(now_version=version, now_s=now_s)
                )
        return True

    def counts(self) -> Compared:
        """Return how many accepted observations are compared, left out, and waiting."""
        accepted = select(func.count()).select_from(OBSERVATIONS)
        accepted = accepted.where(_SEEN.state == ObservationState.ACCEPTED.value, IS_MEASURED)
        found = (
            select(func.count(), func.count(_RESIDUAL.predicted_s))
            .select_from(RESIDUALS)
            .join(OBSERVATIONS, _RESIDUAL.observation == _SEEN.id)
            .where(_SEEN.state == ObservationState.ACCEPTED.value, IS_MEASURED)
        )
        with self._connections.reading() as connection:
            everything = int(connection.execute(accepted).scalar_one())
            kept, compared = connection.execute(found).one()
        return Compared(int(compared), int(kept) - int(compared), everything - int(kept))

    def _read(self, query: Select[Any]) -> tuple[StoredResidual, ...]:
        return tuple(map(_residual, self._rows(query)))


def _counting() -> Select[Any]:
    """Return residuals whose observations are believed now, with what is said of these."""
    told = (_SEEN.family, _SEEN.reporter, _SEEN.received_at, _SEEN.step_time_s, _SEEN.job_ref)
    return (
        select(RESIDUALS, *told, _SEEN.batch_size)
        .join(OBSERVATIONS, _RESIDUAL.observation == _SEEN.id)
        .where(_SEEN.state == ObservationState.ACCEPTED.value, IS_MEASURED)
    )


def _uncompared(row: Row[Any]) -> Uncompared:
    seen = stored_observation(row, row.content)
    return Uncompared(number=row.id, revision=row.revision, seen=seen)


def _row(residual: StoredResidual) -> dict[str, Any]:
    plain = {name: getattr(residual, name) for name in _PLAIN}
    software = orjson.dumps(dict(residual.software), option=orjson.OPT_SORT_KEYS).decode()
    return {**plain, "software": software, "compared_at": now()}


def _residual(row: Row[Any]) -> StoredResidual:
    return record_from(StoredResidual, row, measured_s=row.step_time_s, job=row.job_ref)
