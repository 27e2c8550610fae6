"""The repeat policy, on made-up seconds."""

from collections.abc import Iterator, Sequence

import pytest

from perfmodel.profilers.timing import (
    LoadMeter,
    SystemLoad,
    Timing,
    TimingPolicy,
    quantile,
    summarise,
    time_steps,
)


@pytest.fixture(autouse=True)
def _nothing_to_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each made-up series the walk through all objects of the suite."""
    monkeypatch.setattr("gc.collect", lambda: 0)


class FakeMachine(LoadMeter):
    """A clock that each step moves on by the next of the given seconds."""

    def __init__(self, steps_s: Sequence[float], loads: Sequence[float] = ()) -> None:
        self._steps_s: Iterator[float] = iter(steps_s)
        self._loads = list(loads)
        self.now_ns = 0
        self.steps = 0

    def step(self) -> None:
        self.now_ns += round(next(self._steps_s) * 1e9)
        self.steps += 1

    def start(self) -> None:
        pass

    def other_share(self) -> float:
        return self._loads.pop(0) if self._loads else 0.0

    def time(self, policy: TimingPolicy) -> Timing:
        return time_steps(self.step, policy, clock_ns=lambda: self.now_ns, load=self)


def test_warm_up_ends_when_two_steps_agree() -> None:
    # 1.0 -> 0.5 differs by 100 % of the last, 0.5 -> 0.49 by 2 %: three untimed steps.
    machine = FakeMachine([1.0, 0.5, 0.49, *[0.5] * 50])
    timing = machine.time(TimingPolicy(budget_s=100.0, known_samples=5))
    assert timing.warmup_steps == 3
    assert timing.samples_s == (0.5,) * 5


def test_warm_up_takes_at_least_two_steps_and_at_most_its_maximum() -> None:
    policy = TimingPolicy(warmup_max=4, known_samples=5)
    assert FakeMachine([0.1] * 60).time(policy).warmup_steps == 2
    falling = [0.8, 0.4, 0.2, 0.1, *[0.1] * 60]
    assert FakeMachine(falling).time(policy).warmup_steps == 4


def test_a_quiet_series_ends_as_soon_as_its_spread_is_known() -> None:
    timing = FakeMachine([0.01] * 99).time(TimingPolicy(known_samples=15))
    assert len(timing.samples_s) == 15
    assert not timing.noisy


def test_the_budget_ends_a_slow_series_but_not_before_the_least_samples() -> None:
    # 3 s hold three steps of 1 s; five are the least.
    timing = FakeMachine([1.0] * 99).time(TimingPolicy(budget_s=3.0, min_samples=5))
    assert len(timing.samples_s) == 5


def test_a_wide_series_goes_on_to_the_maximum_and_is_flagged() -> None:
    wide = [0.01, 0.02] * 200
    timing = FakeMachine(wide).time(TimingPolicy(max_samples=20))
    assert len(timing.samples_s) == 20
    assert timing.noisy
    assert timing.attempts == 2


def test_a_noisy_series_is_taken_again_and_the_quiet_one_is_kept() -> None:
    policy = TimingPolicy(known_samples=5, max_samples=6)
    # Two to warm up, six wide ones, then five quiet ones.
    machine = FakeMachine([0.1, 0.1, *[0.1, 0.2] * 3, *[0.1] * 5])
    timing = machine.time(policy)
    assert timing.samples_s == (0.1,) * 5
    assert timing.attempts == 2
    assert not timing.noisy
    assert machine.steps == 2 + 6 + 5


@pytest.mark.parametrize(("loads", "noisy"), [([0.5, 0.01], False), ([0.5, 0.4], True)])
def test_load_of_others_makes_a_series_noisy(loads: list[float], noisy: bool) -> None:
    timing = FakeMachine([0.1] * 99, loads).time(TimingPolicy(known_samples=5))
    assert timing.noisy is noisy
    assert timing.attempts == 2


def test_quantiles_and_spread_by_hand() -> None:
    # Sorted 1..11: position 0.1 * 10 = 1 -> 2; 0.9 * 10 = 9 -> 10; median 6; (10 - 2) / 6.
    values = [float(v) for v in (11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6)]
    assert quantile(values, 0.1) == 2.0
    assert quantile(values, 0.9) == 10.0
    timing = summarise(values, TimingPolicy())
    assert timing.median_s == 6.0
    assert timing.spread == pytest.approx(8 / 6)
    assert timing.samples_s == tuple(values)


def test_the_real_load_meter_returns_a_share() -> None:
    meter = SystemLoad()
    meter.start()
    sum(range(200_000))
    assert 0.0 <= meter.other_share() <= 1.0
