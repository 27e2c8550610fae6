"""Read the bodies of questions: options, matrices, curves, rankings, searches, explanations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.tables.curve import CurveQuestion, doubling_counts
from perfmodel.estimator.tables.ranking import Criterion, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.json_values import (
    as_count,
    as_flag,
    as_items,
    as_known_text,
    as_number,
    as_object,
    as_text,
    shown,
)
from perfmodel.placement.calibration.observation import Observation, Unread
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Network, Placement
from perfmodel.requests import (
    as_request,
    parse_job,
    parse_matrix_observations,
    parse_observations,
)

T = TypeVar("T")

#: Accelerators of a full host, unless a curve says otherwise.
_PER_HOST = 8
_MOST_OF_A_CURVE = 64
_CURVE = (
    "job", "accelerator", "counts", "most", "accelerators_per_host", "network", "link",
    "zero_stage", "observations",
)  # fmt: skip
_RANK = (
    "job", "placements", "by", "most", "constraints", "prices", "observations", "placement",
    "search",
)  # fmt: skip
_MATRIX = ("jobs", "placements", "observations")
_CONSTRAINTS = ("fits", "total_samples", "deadline_s", "budget")

#: Groups of equal operators of an explanation, unless a question says otherwise; and at most.
_OPERATORS, _MOST_OPERATORS = 50, 1_000

#: Placements of a ranking, or of those that are read alone, and errors of a matrix: what is told of
#: each takes up to a kilobyte, where a cell of a matrix takes some hundred bytes.
MOST_ONE_BY_ONE = 10_000

#: Options: which model answers, and by when.
OPTIONS = ("pin_model", "deadline_ms", "allow_fallback")

#: Says what ``deadline_ms`` says, for callers that cannot change the body; the body stands over it.
DEADLINE_HEADER = b"x-deadline-ms"

#: Longer than anybody waits; a number that is larger is a mistake of unit.
MOST_MS = 3_600_000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a question is to be answered.

    Parameters
    ----------
    pin_model : str or None
        The one version of the model that may answer.
    until_s : float or None
        When the caller stops waiting, on the clock of :func:`time.monotonic`.
    deadline_ms : float or None
        How long the caller waits, as it was stated.
    allow_fallback : bool
        Whether the analytical model may answer where the full answer does not come in time.
    """

    pin_model: str | None = None
    until_s: float | None = None
    deadline_ms: float | None = None
    allow_fallback: bool = True

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, at least 0; None without a deadline."""
        return None if self.until_s is None else max(0.0, self.until_s - time.monotonic())


#: No options at all.
NO_OPTIONS = Options()


def split_options(question: Any, stated_ms: bytes | None = None) -> tuple[Any, Options]:
    """Return a question without its options, and these.

    Parameters
    ----------
    stated_ms : bytes or None
        Value of the header. Either counts from now.

    Examples
    --------
    >>> question, options = split_options({"job": 1, "deadline_ms": 50})
    >>> question, options.deadline_ms, options.allow_fallback
    ({'job': 1}, 50.0, True)
    """
    if type(question) is not dict:
        return question, NO_OPTIONS
    if stated_ms is None and not any(name in question for name in OPTIONS):
        return question, NO_OPTIONS
    plain = {name: value for name, value in question.items() if name not in OPTIONS}
    waits_ms = _deadline_ms(question.get("deadline_ms"))
    if waits_ms is None and stated_ms is not None:
        waits_ms = _deadline_ms_of_header(stated_ms)
    pinned, allowed = question.get("pin_model"), question.get("allow_fallback")
    return plain, Options(
        pin_model=None if pinned is None else as_text("pin_model", pinned, "/pin_model"),
        until_s=None if waits_ms is None else time.monotonic() + waits_ms / 1e3,
        deadline_ms=waits_ms,
        allow_fallback=allowed is None or as_flag("allow_fallback", allowed, "/allow_fallback"),
    )


@dataclass(frozen=True, kw_only=True)
class AskedMatrix:
    """Jobs and placements as they were written, and what was observed.

    Parameters
    ----------
    jobs, placements : list
        Not read yet: one that cannot be costs its own cells only.
    observations : dict
        By the position of their job, which says what they leave out.
    """

    jobs: list[Any]
    placements: list[Any]
    observations: dict[int, tuple[Unread, ...]]

    def rows(self, positions: Sequence[int]) -> AskedMatrix:
        """Return the question about some of the jobs."""
        seen = {row: self.observations.get(position) for row, position in enumerate(positions)}
        return AskedMatrix(
            jobs=[self.jobs[position] for position in positions],
            placements=self.placements,
            observations={row: found for row, found in seen.items() if found},
        )


@dataclass(frozen=True, kw_only=True)
class AskedCurve:
    """A curve that was asked for."""

    job: Job
    question: CurveQuestion
    observations: tuple[Observation, ...]


@dataclass(frozen=True, kw_only=True)
class AskedRank:
    """Placements to rank."""

    job: Job
    placements: tuple[Placement | PerfModelError, ...]
    question: RankQuestion
    observations: tuple[Observation, ...]


@dataclass(frozen=True, kw_only=True)
class AskedPlans:
    """Hardware whose plans are searched."""

    job: Job
    placement: Placement
    global_batch: int | None
    most: int
    observations: tuple[Observation, ...] = ()


def read_matrix(question: Any, *, max_cells: int) -> AskedMatrix:
    """Read the body of ``POST /v1/matrix``."""
    as_object(question, "", what="A request", known=(*_MATRIX, *OPTIONS))
    for name in ("jobs", "placements"):
        as_items(name, question.get(name), f"/{name}")
    jobs, placements = question["jobs"], question["placements"]
    cells = len(jobs) * len(placements)
    if cells > max_cells:
        raise InvalidInputError(
            f"{len(jobs)} jobs x {len(placements)} placements are {cells} cells; at most "
            f"{max_cells} are answered at a time. Send fewer."
        )
    seen = question.get("observations")
    return AskedMatrix(
        jobs=jobs,
        placements=placements,
        observations={} if seen is None else parse_matrix_observations(seen, len(jobs)),
    )


def read_placements(question: Any) -> list[Any]:
    """Read the body of ``POST /v1/placements``; one that cannot be read costs itself only."""
    return _placements(as_object(question, "", what="A request", known=("placements",)))


def _placements(fields: Mapping[str, Any]) -> list[Any]:
    written = as_items("placements", fields.get("placements"), "/placements")
    if len(written) > MOST_ONE_BY_ONE:
        raise InvalidInputError(
            f"At most {MOST_ONE_BY_ONE} placements are read at a time; got {len(written)}. Send "
            "fewer, or ask for a matrix.",
            pointer="/placements",
        )
    return written


def read_curve(question: Any) -> AskedCurve:
    """Read the body of ``POST /v1/curve``."""
    fields = _fields(question, _CURVE, ("job", "accelerator"))
    job = parse_job(fields["job"])
    return AskedCurve(
        job=job,
        question=CurveQuestion(
            accelerator=as_text("accelerator", fields["accelerator"], "/accelerator"),
            counts=_counts(fields),
            per_host=_count(fields, "accelerators_per_host", _PER_HOST),
            network=_network(fields.get("network")),
            link=None if fields.get("link") is None else as_text("link", fields["link"], "/link"),
            zero_stage=_stage(fields.get("zero_stage")),
        ),
        observations=parse_observations(fields.get("observations"), job),
    )


def read_rank(question: Any) -> AskedRank | AskedPlans:
    """Read the body of ``POST /v1/rank``."""
    fields = _fields(question, _RANK, ("job",))
    job = parse_job(fields["job"])
    if fields.get("search") is not None or fields.get("placement") is not None:
        return _read_search(fields, job)
    if fields.get("placements") is None:
        raise InvalidInputError(
            "A ranking needs placements, a list; or a placement and search.", pointer="/placements"
        )
    written = _placements(fields)
    limits = as_object(
        fields.get("constraints") or {}, "/constraints", what="constraints", known=_CONSTRAINTS
    )
    criteria = [criterion.value for criterion in Criterion]
    return AskedRank(
        job=job,
        placements=tuple(
            attempt(parse_placement, p, f"/placements/{i}") for i, p in enumerate(written)
        ),
        question=RankQuestion(
            by=Criterion(as_known_text("by", fields.get("by") or "throughput", criteria, "/by")),
            most=_count(fields, "most", 10),
            fits=limits.get("fits") is None or as_flag("fits", limits["fits"], "/constraints/fits"),
            total_samples=_limit(limits, "total_samples"),
            deadline_s=_limit(limits, "deadline_s"),
            budget=_limit(limits, "budget"),
            prices=_prices(fields.get("prices")),
        ),
        observations=parse_observations(fields.get("observations"), job),
    )


def read_explain(question: Any) -> tuple[Any, int]:
    """Return a question as for a prediction, and how many groups of operators are wanted."""
    if not isinstance(question, dict):
        return question, _OPERATORS
    plain = {name: value for name, value in question.items() if name != "most"}
    most = question.get("most")
    count = _OPERATORS if most is None else as_count("most", most, "/most")
    if count > _MOST_OPERATORS:
        raise InvalidInputError(
            f"most is how many groups of equal operators are answered, from 1 to "
            f"{_MOST_OPERATORS}; got {count}.",
            pointer="/most",
        )
    return plain, count


def _read_search(fields: Mapping[str, Any], job: Job) -> AskedPlans:
    for name in ("placements", "by", "constraints", "prices"):
        if fields.get(name) is not None:
            raise InvalidInputError(
                f"A search of plans takes job, placement and search; {name} belongs to the "
                "ranking of placements.",
                pointer=f"/{name}",
            )
    if fields.get("placement") is None:
        raise InvalidInputError("A search needs a placement.", pointer="/placement")
    wanted = as_object(
        fields.get("search") or {}, "/search", what="search", known=("global_batch_size", "most")
    )
    batch = wanted.get("global_batch_size")
    return AskedPlans(
        job=job,
        placement=parse_placement(fields["placement"]),
        global_batch=None
        if batch is None
        else as_count("global_batch_size", batch, "/search/global_batch_size"),
        most=10 if wanted.get("most") is None else as_count("most", wanted["most"], "/search/most"),
        observations=parse_observations(fields.get("observations"), job),
    )


def _fields(question: Any, known: tuple[str, ...], needed: tuple[str, ...]) -> Mapping[str, Any]:
    fields = as_request(question, (*known, *OPTIONS))
    for name in needed:
        if fields.get(name) is None:
            raise InvalidInputError(f"A request needs the field {name!r}.", pointer=f"/{name}")
    return fields


def _counts(fields: Mapping[str, Any]) -> tuple[int, ...]:
    counts, most = fields.get("counts"), _count(fields, "most", _MOST_OF_A_CURVE)
    if counts is None:
        return tuple(doubling_counts(most))
    if not isinstance(counts, list):
        raise InvalidInputError(f"counts must be a list; got {shown(counts)}.", pointer="/counts")
    return tuple(as_count("counts", count, f"/counts/{i}") for i, count in enumerate(counts))


def _count(fields: Mapping[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    return default if value is None else as_count(name, value, f"/{name}")


def _stage(value: Any) -> int:
    if value not in (None, 0, 1, 2, 3) or isinstance(value, bool):
        raise InvalidInputError(
            f"zero_stage must be 0, 1, 2 or 3; got {shown(value)}.", pointer="/zero_stage"
        )
    return value or 0


def _network(value: Any) -> Network | None:
    """Read a network as a placement would."""
    if value is None:
        return None
    if isinstance(value, str):
        return named_network(value, pointer="/network")
    try:
        holder = {"nodes": [{"accelerator": "cpu", "repeat": 2}], "network": value}
        return parse_placement(holder, pointer="").network
    except InvalidInputError as error:
        if not str(error.pointer).startswith("/network"):
            error.pointer = "/network"
        raise


def _limit(limits: Mapping[str, Any], name: str) -> float | None:
    value = limits.get(name)
    return None if value is None else as_number(name, value, f"/constraints/{name}")


def _prices(value: Any) -> dict[str, float]:
    prices = as_object(value or {}, "/prices", what="prices")
    return {name: as_number(name, price, f"/prices/{name}") for name, price in prices.items()}


def _deadline_ms(value: Any, pointer: str = "/deadline_ms") -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_MS:
        raise InvalidInputError(
            "deadline_ms is how many milliseconds the answer may take, above 0 and at most "
            f"{MOST_MS:.0f}; got {shown(value)}.",
            pointer=pointer,
        )
    return float(value)


def _deadline_ms_of_header(value: bytes) -> float | None:
    try:
        return _deadline_ms(float(value), pointer="")
    except ValueError:
        text = value.decode("latin-1")
        raise InvalidInputError(
            f"The header X-Deadline-Ms is a number of milliseconds; got {shown(text)}."
        ) from None


def attempt(read: Callable[..., T], value: Any, pointer: str) -> T | PerfModelError:
    """Return what was read, or what is wrong with it: it then costs its own cells only."""
    try:
        return read(value, pointer=pointer)
    except PerfModelError as error:
        return error.with_traceback(None)
