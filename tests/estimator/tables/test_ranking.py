"""Placements by what a user wants most of, and plans by their time."""

from __future__ import annotations

from typing import Any

import pytest

from perfmodel.errors import InvalidInputError, UnknownAcceleratorError
from perfmodel.estimator import Estimator
from perfmodel.estimator.tables.ranking import Criterion, Ranking, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode

ADAPTATION = {
    "gradient_noise_scale": 4000.0, "initial_batch_size": 500, "batch_size_bounds": (500, 64_000),
}  # fmt: skip
JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000, adaptation=ADAPTATION)
WRITTEN = ("A10", "4xA10", "H100-SXM5-80GB", "8xH100-SXM5-80GB")


def _rank(estimator: Estimator, *written: str, job: Job = JOB, **question: Any) -> Ranking:
    placements = [parse_placement(form) for form in written or WRITTEN]
    return estimator.rank(job, placements, RankQuestion(**question))


def test_the_fastest_comes_first(estimator: Estimator) -> None:
    found = _rank(estimator)
    rates = [one.estimate.throughput.samples_per_second for one in found.best]
    assert rates == sorted(rates, reverse=True)
    assert len(found.best) == len(WRITTEN)
    assert found.best[0].score == rates[0]
    assert len(_rank(estimator, most=2).best) == 2


def test_money_prefers_the_cheap(estimator: Estimator) -> None:
    # An H100 is twice as fast and costs ten times as much.
    prices = {"A10": 1.0, "H100-SXM5-80GB": 10.0}
    found = _rank(estimator, "A10", "H100-SXM5-80GB", by=Criterion.COST, prices=prices)
    assert [one.placement for one in found.best] == [0, 1]
    # 1e6 samples/s for 1/3600 a second.
    assert found.best[0].samples_per_money == pytest.approx(3.6e9)
    missing = _rank(estimator, "A10", by=Criterion.COST)
    assert isinstance(missing.errors[0], InvalidInputError)
    assert missing.errors[0].pointer == "/prices"


def test_a_part_costs_its_part(estimator: Estimator) -> None:
    found = _rank(
        estimator, "H100-SXM5-80GB", "H100-SXM5-80GB/1g.10gb",
        by=Criterion.COST, prices={"H100-SXM5-80GB": 1.0},
    )  # fmt: skip
    rates = {one.placement: one.estimate.throughput.samples_per_second for one in found.best}
    each = {one.placement: one.samples_per_money for one in found.best}
    # 16 of 132 SMs.
    assert each[1] == pytest.approx(rates[1] * 3600 * 132 / 16)
    assert each[0] == pytest.approx(rates[0] * 3600)


def test_prices_in_several_currencies_are_not_compared(estimator: Estimator) -> None:
    prices = {"A10": 1.0, "H100-SXM5-80GB": 2.0, "T4": 0.2}
    currencies = {"A10": "EUR", "H100-SXM5-80GB": "USD", "T4": "USD"}

    def ranked(*written: str, **question: Any) -> Ranking:
        return _rank(estimator, *written, prices=prices, currencies=currencies, **question)

    for about_money in ({"by": Criterion.COST}, {"budget": 1.0, "total_samples": 1e6}):
        with pytest.raises(InvalidInputError, match="A10 in EUR, of H100.* in USD") as refused:
            ranked("A10", "4xH100-SXM5-80GB", **about_money)
        assert refused.value.pointer == "/prices"
    assert {one.samples_per_money for one in ranked("A10", "H100-SXM5-80GB").best} == {None}
    assert len(ranked("T4", "H100-SXM5-80GB", by=Criterion.COST).best) == 2


def test_what_has_no_price_is_named_alone(estimator: Estimator) -> None:
    found = _rank(estimator, "A10+T4", by=Criterion.COST, prices={"A10": 1.0})
    assert str(found.errors[0]).startswith("No price of T4;")


def test_energy_counts_what_boards_may_draw(estimator: Estimator) -> None:
    found = _rank(estimator, "A10", by=Criterion.ENERGY)
    # 1e6 samples/s at 150 W.
    assert found.best[0].score == pytest.approx(1e6 / 150)


def test_deadline_and_budget_leave_out_with_a_reason(estimator: Estimator) -> None:
    # 2e6 samples take 2 s on an A10 and 1 s on an H100.
    found = _rank(estimator, "A10", "H100-SXM5-80GB", total_samples=2e6, deadline_s=1.5)
    assert [one.placement for one in found.best] == [1]
    assert "deadline" in found.left_out[0].left_out
    with pytest.raises(InvalidInputError, match="total_samples"):
        RankQuestion(deadline_s=1.0)


def test_what_cannot_be_answered_stays_alone(estimator: Estimator) -> None:
    found = _rank(estimator, "A10", "A1000000")
    assert [one.placement for one in found.best] == [0]
    assert isinstance(found.errors[1], UnknownAcceleratorError)


def test_goodput_is_throughput_times_efficiency(estimator: Estimator) -> None:
    found = _rank(estimator, "A10", "4xA10", by=Criterion.GOODPUT)
    for one in found.best:
        batch = one.batch
        assert batch is not None
        assert one.score == pytest.approx(batch.samples_per_second * batch.efficiency)
        noise, first = 4000.0, 500
        wanted = (noise + first) / (noise + batch.global_batch_size)
        assert batch.efficiency == pytest.approx(wanted)
        low, high = 500, 64_000
        assert low <= batch.global_batch_size <= high
    with pytest.raises(InvalidInputError, match="adaptation"):
        plain = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
        raise _rank(estimator, "A10", job=plain, by=Criterion.GOODPUT).errors[0]


def test_plans_need_a_transformer(estimator: Estimator) -> None:
    with pytest.raises(InvalidInputError, match="transformer"):
        estimator.search(JOB, parse_placement("8xA10"))


def test_unequal_accelerators_finish_together_when_the_batch_is_dealt(
    estimator: Estimator,
) -> None:
    # An H100 takes 0.5 us a sample and an A10 1 us: equal batches wait for the A10.
    nodes = [{"accelerator": "H100-SXM5-80GB"}, {"accelerator": "A10"}]

    def split(how: str) -> float:
        placement = parse_placement({"nodes": nodes, "plan": {"batch_split": how}})
        return estimator.estimate(JOB, placement).breakdown.compute_s

    assert split("equal") == pytest.approx(2e-3)
    # 4,000 samples at 3 samples/us.
    assert split("proportional") == pytest.approx(4000 / 3e6, rel=1e-3)


@pytest.mark.parametrize("script", [False, True])
def test_each_placement_is_answered_beside_its_own_neighbours(
    estimator: Estimator, script: bool
) -> None:
    job = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64, script=script)
    node = {"nodes": [{"accelerator": "V100-SXM2-16GB"}]}
    partners: list[list[str]] = [[], ["LM (batch size 20)"], ["ResNet-50 (batch size 64)"]]
    places = [parse_placement({**node, "shared_with": partner}) for partner in partners]
    ranking = estimator.rank(job, places, RankQuestion(by=Criterion.THROUGHPUT))
    assert len(ranking.best) == 3
    for one in ranking.best:
        assert [n.name for n in one.estimate.neighbours] == partners[one.placement]
        alone = estimator.estimate(job, places[one.placement])
        assert one.estimate.step_time_s == pytest.approx(alone.step_time_s, rel=1e-12)
        assert one.estimate.throughput.low == pytest.approx(alone.throughput.low, rel=1e-12)
        assert one.estimate.memory == alone.memory and one.estimate.warnings == alone.warnings
