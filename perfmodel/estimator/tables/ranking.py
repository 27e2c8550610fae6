"""Rank placements of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from perfmodel.client import answers
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import VERSION
from perfmodel.estimator.jobs.capture_terms import go_on
from perfmodel.estimator.tables.filling import Filling, fill
from perfmodel.estimator.tables.goodput import best_goodput, best_goodput_of_type
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.topology import Placement


class Criterion(StrEnum):
    """What placements are ranked by; more is better in all of them."""

    THROUGHPUT = "throughput"
    GOODPUT = "goodput"
    #: Samples for one unit of money.
    COST = "cost"
    #: Samples for one joule of what the accelerators may draw.
    ENERGY = "energy"


@dataclass(frozen=True, kw_only=True)
class RankQuestion:
    """How to rank.

    Parameters
    ----------
    fits : bool
        Leave out what does not fit.
    total_samples : float or None
        Of the whole job; with it, deadline and budget mean something.
    deadline_s : float or None
        Leave out what takes longer.
    budget : float or None
        Leave out what costs more.
    prices : mapping of str to float
        Money for one accelerator and hour, by canonical name.
    currencies : mapping of str to str
        What prices are in, by the same names; of those left out nobody says.
    """

    by: Criterion = Criterion.THROUGHPUT
    most: int = 10
    fits: bool = True
    total_samples: float | None = None
    deadline_s: float | None = None
    budget: float | None = None
    prices: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    currencies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        limited = self.deadline_s is not None or self.budget is not None
        if limited and self.total_samples is None:
            raise InvalidInputError(
                "A deadline or a budget needs total_samples: how much there is to do.",
                pointer="/constraints/total_samples",
            )

    @property
    def is_about_money(self) -> bool:
        """Whether prices decide."""
        return self.by is Criterion.COST or self.budget is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked(answers.Ranked):
    """One placement with its answer, in the form that the client reads."""

    estimate: Estimate


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Placements, best first.

    Parameters
    ----------
    left_out : tuple of Ranked
        What breaks a constraint, with the reason.
    errors : mapping of int to PerfModelError
        What cannot be answered, by position.
    warnings : tuple of str
        Of the whole; those of a placement are in its estimate.
    """

    best: tuple[Ranked, ...]
    left_out: tuple[Ranked, ...]
    errors: Mapping[int, PerfModelError]
    model_version: str | None = None
    warnings: tuple[str, ...] = ()


def rank_placements(
    core: Core,
    job: Job,
    placements: Sequence[Placement | PerfModelError],
    question: RankQuestion,
    observations: Sequence[Observation] = (),
    strangers: Strangers | None = None,
) -> Ranking:
    """Rank placements of a job, as :meth:`.facade.Estimator.rank`: sort a row of its table.

    Raises
    ------
    PerfModelError
        The job cannot be answered anywhere.
    """
    filled = fill(core, [job], placements, {0: observations} if observations else {}, strangers)
    errors: dict[int, PerfModelError] = {}
    for one in filled.errors:
        if one.placement is None:
            raise one.error
        errors.setdefault(one.placement, one.error)
    question = _in_one_currency(question, filled.resolved)
    ranked: list[Ranked] = []
    for at, placement in enumerate(filled.resolved):
        if placement is not None and at not in errors:
            go_on()
            try:
                ranked.append(_one(core, filled, placement, question, at))
            except PerfModelError as error:
                errors[at] = error
    # Of equals the earlier in the question comes first.
    best = sorted((r for r in ranked if not r.left_out), key=lambda r: (-r.score, r.placement))
    return Ranking(
        best=tuple(best[: question.most]),
        left_out=tuple(r for r in ranked if r.left_out),
        errors=MappingProxyType(dict(sorted(errors.items()))),
        model_version=VERSION if job.job_type is not None else core.model.version,
    )


def _in_one_currency(
    question: RankQuestion, placements: Sequence[ResolvedPlacement | None]
) -> RankQuestion:
    """Return a question with prices that can be compared, or with none where they do not matter.

    Raises
    ------
    InvalidInputError
        They decide, and are in several currencies.
    """
    names = sorted({a.name for one in placements if one for a in one.accelerators})
    currencies = {name: question.currencies[name] for name in names if name in question.currencies}
    if len(set(currencies.values())) < 2:
        return question
    if not question.is_about_money:
        return replace(question, prices={})
    found = ", ".join(f"of {name} in {currency}" for name, currency in currencies.items())
    raise InvalidInputError(
        f"Prices that are kept are {found}: they cannot be compared. State prices of these "
        "accelerators in one currency with the question.",
        pointer="/prices",
    )


def _one(
    core: Core, filled: Filling, placement: ResolvedPlacement, question: RankQuestion, position: int
) -> Ranked:
    estimate = filled.estimate(0, position)
    rate = estimate.throughput.samples_per_second
    found = Ranked(
        placement=position,
        score=rate,
        estimate=estimate,
        batch=_batch(core, filled, placement) if question.by is Criterion.GOODPUT else None,
        samples_per_money=_per_money(rate, placement, question),
        samples_per_joule=_per_joule(rate, placement),
    )
    return replace(
        found,
        score=_score(found, question, placement),
        left_out=_left_out(found, question),
    )


def _batch(core: Core, filled: Filling, placement: ResolvedPlacement) -> answers.Batch:
    row = filled.job(0)
    if isinstance(row, ObservedJobType):
        return best_goodput_of_type(row, placement)
    assert row is not None
    return best_goodput(core, row, placement, filled.observed.get(0))


def _score(found: Ranked, question: RankQuestion, placement: ResolvedPlacement) -> float:
    if question.by is Criterion.GOODPUT and found.batch is not None:
        return found.batch.goodput
    if question.by is Criterion.COST:
        if found.samples_per_money is None:
            names = dict.fromkeys(kind.accelerator.name for kind in placement.kinds)
            missing = [name for name in names if name not in question.prices]
            raise InvalidInputError(
                f"No price of {', '.join(missing)}; state prices per accelerator and hour.",
                pointer="/prices",
            )
        return found.samples_per_money
    if question.by is Criterion.ENERGY:
        if found.samples_per_joule is None:
            raise InvalidInputError(
                "The catalogue does not know the power of an accelerator of this placement.",
                pointer="/placement",
            )
        return found.samples_per_joule
    return found.estimate.throughput.samples_per_second


def _per_money(rate: float, placement: ResolvedPlacement, question: RankQuestion) -> float | None:
    total = 0.0
    for kind in placement.kinds:
        price = question.prices.get(kind.accelerator.name)
        if price is None:
            return None
        total += price * kind.whole_accelerators / 3600.0
    return rate / total if total > 0 else None


def _per_joule(rate: float, placement: ResolvedPlacement) -> float | None:
    power_w = placement.power_w
    return None if power_w is None else rate / power_w


def _left_out(found: Ranked, question: RankQuestion) -> str:
    if question.fits and found.estimate.memory.fits is False:
        return "It does not fit the memory."
    rate = found.estimate.throughput.samples_per_second
    if question.total_samples is None:
        return ""
    takes_s = question.total_samples / rate
    if question.deadline_s is not None and takes_s > question.deadline_s:
        return f"It takes {takes_s:.3g} s, longer than the deadline."
    if question.budget is not None:
        if found.samples_per_money is None:
            return "Its price is not known."
        costs = question.total_samples / found.samples_per_money
        if costs > question.budget:
            return f"It costs {costs:.3g}, more than the budget."
    return ""
