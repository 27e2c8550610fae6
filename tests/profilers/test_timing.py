"""The repeat policy, on made-up seconds."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import pytest

from perfmodel.devices.machine_load import LoadMeter, SystemLoad
from perfmodel.profilers.runtime.device_runtime import StepTime
from perfmodel.profilers.runtime.telemetry import NoTelemetry, Telemetry, TelemetryReading
from perfmodel.profilers.timing import (
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
    """Steps that take the given seconds, one after the other."""

    def __init__(self, steps_s: Sequence[float], loads: Sequence[float] = ()) -> None:
        self._steps_s: Iterator[float] = iter(steps_s)
        self._loads = list(loads)
        self.steps = 0

    def time_of(self, step: Callable[[], object]) -> StepTime:
        """Take the next of the seconds; the device is busy for half of them."""
        step()
        self.steps += 1
        wall_s = next(self._steps_s)
        return StepTime(wall_s=wall_s, device_s=wall_s / 2)

    def start(self) -> None:
        pass

    def other_share(self) -> float:
        return self._loads.pop(0) if self._loads else 0.0

    def time(self, policy: TimingPolicy, telemetry: Telemetry | None = None) -> Timing:
        clock = SimpleNamespace(time=self.time_of, telemetry=telemetry or NoTelemetry())
        return time_steps(lambda: None, policy, clock=clock, load=self)


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


class SaidTelemetry(Telemetry):
    """Says one reading after the other, and counts its samples."""

    def __init__(self, *readings: TelemetryReading) -> None:
        self._readings = list(readings)
        self.samples = 0

    def start(self) -> None:
        pass

    def sample(self) -> None:
        self.samples += 1

    def stop(self) -> TelemetryReading:
        return self._readings.pop(0)


def test_energy_is_shared_by_the_steps_of_its_series() -> None:
    # 5 steps used 60 J together: 12 J each.
    telemetry = SaidTelemetry(TelemetryReading(energy_j=60.0))
    timing = FakeMachine([0.1] * 99).time(TimingPolicy(known_samples=5), telemetry)
    assert timing.energy_j == 12.0
    assert timing.device_s == 0.05
    assert telemetry.samples == 5


def test_a_throttled_or_shared_device_is_noisy_and_tried_again() -> None:
    policy = TimingPolicy(known_samples=5)
    hot = TelemetryReading(throttle_reasons=("thermal",))
    timing = FakeMachine([0.1] * 99).time(policy, SaidTelemetry(hot, TelemetryReading()))
    assert (timing.noisy, timing.attempts) == (False, 2)
    shared = TelemetryReading(other_processes=1)
    timing = FakeMachine([0.1] * 99).time(policy, SaidTelemetry(hot, shared))
    assert timing.noisy
    # A power cap is how the device is run.
    capped = SaidTelemetry(TelemetryReading(throttle_reasons=("power_cap",)))
    assert not FakeMachine([0.1] * 99).time(policy, capped).noisy


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
