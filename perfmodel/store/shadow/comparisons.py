"""Questions as two versions answer them, and what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, func, or_, select

from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import SharedStore, insert_new, record_from
from perfmodel.store.sql.tables import ASKED_QUESTIONS, OBSERVATIONS, SHADOW_ANSWERS
from perfmodel.store.state.observation_records import IS_MEASURED, ObservationState

#: Comparisons of two versions that are kept, beyond those of questions that are still kept, and
#: pairs of versions of which any are.
MOST_OF_A_PAIR = 2_000
MOST_PAIRS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One question as two versions answer it.

    Parameters
    ----------
    question : str
        Key of the question.
    label : str
        The job, for people.
    device, mode, family, placement_kind : str
        Its groups.
    job_family : str
        Name of the job and of those that differ in their batch alone.
    placement, named_placement : str
        As JSON: as it was asked, and by the names of the catalogue.
    serving_s, shadow_s : float or None
        Time of a step without what was observed of the job, seconds, > 0. None where a version
        fails, and for job types, which are known by what was observed alone.
    answered_ratio : float or None
        ln of the time of a step as the shadow would have answered it over that as the other did,
        with what was observed.
    serving_problem, shadow_problem : str or None
        Why a version has no answer.
    """

    question: str
    label: str
    device: str
    mode: str
    family: str
    placement_kind: str
    job_family: str
    batch_size: int
    accumulation_steps: int
    placement: str
    named_placement: str
    serving_s: float | None = None
    shadow_s: float | None = None
    answered_ratio: float | None = None
    serving_problem: str | None = None
    shadow_problem: str | None = None
    compared_at: str = ""


class Measured(NamedTuple):
    """One step that was measured of a question, seconds, and when it was reported (UTC)."""

    step_time_s: float
    received_at: str


class ComparisonStore(SharedStore):
    """Keeps comparisons, each question once for every two versions."""

    def add(self, model: str, against: str, comparisons: Sequence[Comparison]) -> None:
        """Keep comparisons of two versions; a question that was compared before stays as it is."""
        if not comparisons:
            return
        pair = {"model": model, "against": against, "compared_at": now()}
        rows = [{**asdict(one), **pair} for one in comparisons]
        with self._connections.writing() as connection:
            if not _is_known(connection, model, against):
                _remove_old_pairs(connection)
            insert_new(connection, SHADOW_ANSWERS, rows, "model", "against", "question")
            _remove_oldest(connection, model, against)

    def compared(self, model: str, against: str) -> set[str]:
        """Return the keys of the questions that were compared."""
        table = SHADOW_ANSWERS.c
        query = select(table.question).where(table.model == model, table.against == against)
        return set(self._column(query))

    def waiting(self, model: str, against: str) -> int:
        """Return how many of the questions that are kept were not compared yet."""
        table = SHADOW_ANSWERS.c
        done = select(table.question).where(table.model == model, table.against == against)
        query = select(func.count()).where(ASKED_QUESTIONS.c.key.not_in(done))
        return int(self._column(query)[0])

    def last_against(self, model: str) -> str | None:
        """Return the version that a version was compared with last."""
        table = SHADOW_ANSWERS.c
        query = select(table.against).where(table.model == model).order_by(table.id.desc()).limit(1)
        return next(iter(self._column(query)), None)

    def of_pair(self, model: str, against: str) -> list[Comparison]:
        """Return the comparisons of two versions, the newest first."""
        table = SHADOW_ANSWERS.c
        query = select(SHADOW_ANSWERS).where(table.model == model, table.against == against)
        rows = self._rows(query.order_by(table.id.desc()).limit(MOST_OF_A_PAIR))
        return [record_from(Comparison, row) for row in rows]

    def measured(self, model: str, against: str) -> dict[str, list[Measured]]:
        """Return what was observed of questions of two versions, by key; accepted ones alone."""
        mine, seen = SHADOW_ANSWERS.c, OBSERVATIONS.c
        same = and_(
            seen.family == mine.job_family,
            seen.batch_size == mine.batch_size,
            seen.accumulation_steps == mine.accumulation_steps,
            or_(seen.placement == mine.placement, seen.placement == mine.named_placement),
            seen.state == ObservationState.ACCEPTED,
            IS_MEASURED,
        )
        query = (
            select(mine.question, seen.step_time_s, seen.received_at)
            .join_from(SHADOW_ANSWERS, OBSERVATIONS, same)
            .where(mine.model == model, mine.against == against)
        )
        found: dict[str, list[Measured]] = {}
        for row in self._rows(query):
            found.setdefault(row.question, []).append(Measured(row.step_time_s, row.received_at))
        return found


def _remove_oldest(connection: Connection, model: str, against: str) -> None:
    """Keep the newest comparisons of a pair."""
    table = SHADOW_ANSWERS.c
    of_pair = and_(table.model == model, table.against == against)
    newest = select(table.id).where(of_pair).order_by(table.id.desc())
    first_gone = connection.execute(newest.offset(MOST_OF_A_PAIR).limit(1)).scalar()
    if first_gone is not None:
        connection.execute(delete(SHADOW_ANSWERS).where(of_pair, table.id <= first_gone))


def _is_known(connection: Connection, model: str, against: str) -> bool:
    table = SHADOW_ANSWERS.c
    query = select(table.id).where(table.model == model, table.against == against).limit(1)
    return connection.execute(query).first() is not None


def _remove_old_pairs(connection: Connection) -> None:
    """Keep the newest pairs but one, before another is added."""
    table = SHADOW_ANSWERS.c
    last = func.max(table.id).label("last")
    pairs = select(table.model, table.against, last).group_by(table.model, table.against)
    for row in connection.execute(pairs.order_by(last.desc()).offset(MOST_PAIRS - 1)):
        old = and_(table.model == row.model, table.against == row.against)
        connection.execute(delete(SHADOW_ANSWERS).where(old))
