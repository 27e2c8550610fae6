"""Rank placements of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.rated import Rated
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.feeding.goodput import BestBatch


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
    most : int
        Placements returned.
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
    """

    by: Criterion = Criterion.THROUGHPUT
    most: int = 10
    fits: bool = True
    total_samples: float | None = None
    deadline_s: float | None = None
    budget: float | None = None
    prices: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        limited = self.deadline_s is not None or self.budget is not None
        if limited and self.total_samples is None:
            raise InvalidInputError(
                "A deadline or a budget needs total_samples: how much there is to do.",
                pointer="/constraints/total_samples",
            )


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One placement with its answer.

    Parameters
    ----------
    position : int
        Of the placement in the question.
    score : float
        By what was ranked.
    batch : BestBatch or None
        The batch that the goodput belongs to.
    left_out : str
        Why it is not among the ranked; empty for those.
    """

    position: int
    score: float
    estimate: Estimate
    batch: BestBatch | None = None
    samples_per_money: float | None = None
    samples_per_joule: float | None = None
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Placements, best first.

    Parameters
    ----------
    left_out : tuple of Ranked
        What breaks a constraint, with the reason.
    errors : mapping of int to PerfModelError
        What cannot be answered, by position.
    model_version : str or None
        The one version that all answers rest on.
    warnings : tuple of str
        Of the whole; those of a placement are in its estimate.
    """

    best: tuple[Ranked, ...]
    left_out: tuple[Ranked, ...]
    errors: Mapping[int, PerfModelError]
    model_version: str | None = None
    warnings: tuple[str, ...] = ()


def rank_placements(
    rated: Rated,
    placements: Sequence[ResolvedPlacement | PerfModelError],
    question: RankQuestion,
    model_version: str,
) -> Ranking:
    """Rank placements of a job.

    Parameters
    ----------
    rated : Rated
        The job.
    placements : sequence
        An error in place of a placement is carried into the answer.
    model_version : str
        Of the answers.
    """
    ranked: list[Ranked] = []
    errors: dict[int, PerfModelError] = {}
    for position, placement in enumerate(placements):
        try:
            if isinstance(placement, PerfModelError):
                raise placement
            ranked.append(_one(rated, placement, question, position))
        except PerfModelError as error:
            errors[position] = error
    # Of equals the earlier in the question comes first.
    best = sorted((r for r in ranked if not r.left_out), key=lambda r: (-r.score, r.position))
    return Ranking(
        best=tuple(best[: question.most]),
        left_out=tuple(r for r in ranked if r.left_out),
        errors=MappingProxyType(errors),
        model_version=model_version,
    )


def _one(
    rated: Rated, placement: ResolvedPlacement, question: RankQuestion, position: int
) -> Ranked:
    estimate = rated.estimate(placement)
    rate = estimate.throughput.samples_per_second
    batch = rated.best_batch(placement) if question.by is Criterion.GOODPUT else None
    found = Ranked(
        position=position,
        score=rate,
        estimate=estimate,
        batch=batch,
        samples_per_money=_per_money(rate, placement, question),
        samples_per_joule=_per_joule(rate, placement),
    )
    return replace(
        found,
        score=_score(found, question, placement),
        left_out=_left_out(found, question),
    )


def _score(found: Ranked, question: RankQuestion, placement: ResolvedPlacement) -> float:
    if question.by is Criterion.GOODPUT and found.batch is not None:
        return found.batch.goodput
    if question.by is Criterion.COST:
        if found.samples_per_money is None:
            missing = [k.accelerator.name for k in placement.kinds]
            raise InvalidInputError(
                f"No price of {', '.join(missing)}; state prices per accelerator and hour.",
                pointer="/prices",
            )
        return found.samples_per_money
    if question.by is Criterion.ENERGY:
        if found.samples_per_joule is None:
            raise InvalidInputError(
                "The catalogue does not know the power of an accelerator of this placement.",
                pointer=placement.pointer,
            )
        return found.samples_per_joule
    return found.estimate.throughput.samples_per_second


def _per_money(rate: float, placement: ResolvedPlacement, question: RankQuestion) -> float | None:
    prices = [question.prices.get(kind.accelerator.name) for kind in placement.kinds]
    total = 0.0
    for price, count in zip(prices, placement.counts, strict=True):
        if price is None:
            return None
        total += price * count / 3600.0
    return rate / total if total > 0 else None


def _per_joule(rate: float, placement: ResolvedPlacement) -> float | None:
    limit = placement.placement.power_limit_w
    watts = 0.0
    for kind in placement.kinds:
        if kind.accelerator.tdp_w is None:
            return None
        share = kind.part.sm_share if kind.part else 1.0
        watts += kind.count * share * min(kind.accelerator.tdp_w, limit or float("inf"))
    return rate / watts


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
