"""Which stored observations a request means, and what is to become of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import as_object, shown
from perfmodel.requests import parse_job
from perfmodel.store.state.observation_records import ObservationFilter, ObservationState
from service.schemas.question_bodies import MOST_OF_A_KEY
from service.state.state import JobFinder, resolve_job_reference

#: Parameters of a query that say which observations are meant.
STATED = ("job", "key", "reporter", "state", "before", "after")


@dataclass(frozen=True, kw_only=True, slots=True)
class Meant:
    """What the query of a request says, as it was written; None where it says nothing."""

    job: str | None = None
    key: str | None = None
    reporter: str | None = None
    state: ObservationState | None = None
    before: str | None = None
    after: str | None = None

    def filter(self, jobs: JobFinder) -> ObservationFilter:
        """Return what is meant.

        Raises
        ------
        InvalidInputError
            It cannot be read, or names a job that nobody registered.
        """
        return ObservationFilter(
            family=None if self.job is None else _family(self.job, jobs),
            key=_text("key", self.key),
            reporter=_text("reporter", self.reporter),
            state=self.state,
            before=_instant("before", self.before),
            after=_instant("after", self.after),
        )

    def check_stated(self) -> None:
        """Refuse a query that means everything.

        Raises
        ------
        InvalidInputError
            It does.
        """
        if self == Meant():
            raise InvalidInputError(
                f"Say which observations are meant by at least one of {', '.join(STATED)}.",
                pointer="/query",
                allowed=STATED,
            )


def state_of(body: Any) -> ObservationState:
    """Return the state that a body asks for: ``{"state": "excluded"}`` or ``"accepted"``.

    Raises
    ------
    InvalidInputError
        It asks for something else.
    """
    fields = as_object(body, "", what="A change of observations", known=("state",))
    words = [ObservationState.EXCLUDED.value, ObservationState.ACCEPTED.value]
    if fields.get("state") not in words:
        raise InvalidInputError(
            f"state is one of {', '.join(words)}; got {shown(fields.get('state'))}.",
            pointer="/state",
            allowed=words,
        )
    return ObservationState(fields["state"])


def _family(ref: str, jobs: JobFinder) -> str:
    return parse_job(resolve_job_reference(ref, jobs, pointer="/query/job")).family


def _text(name: str, value: str | None) -> str | None:
    # Not every text can be asked of a database.
    if value is not None and (len(value) > MOST_OF_A_KEY or not value.isprintable()):
        raise InvalidInputError(
            f"{name} has at most {MOST_OF_A_KEY} printable characters; got {shown(value)}.",
            pointer=f"/query/{name}",
        )
    return value


def _instant(name: str, value: str | None) -> str | None:
    """Return a time as it is written in tables, up to the next millisecond.

    Examples
    --------
    >>> _instant("before", "2026-01-01T13:00:00+01:00")
    '2026-01-01T12:00:00.000+00:00'
    >>> _instant("before", "2026-01-01T12:00:00.0001Z")
    '2026-01-01T12:00:00.001+00:00'
    """
    if value is None:
        return None
    try:
        read = datetime.fromisoformat(value)
        if read.tzinfo is None:
            raise ValueError(value)
        utc = read.astimezone(UTC) + timedelta(microseconds=-read.microsecond % 1_000)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{name} is a time as in RFC 3339, such as 2026-01-31T12:00:00Z; got {shown(value)}. "
            "Write a '+' in an address as %2B.",
            pointer=f"/query/{name}",
        ) from error
    return utc.isoformat(timespec="milliseconds")
