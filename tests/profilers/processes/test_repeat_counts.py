from __future__ import annotations

import pytest

from perfmodel.profilers.processes.repeat_counts import RepeatPolicy, repeat_counts, summed_up

POLICY = RepeatPolicy(
    least_samples=5, most_samples=20, least_sample_s=1e-3, budget_s=0.1, spread_limit=0.5
)


@pytest.mark.parametrize(
    ("one_s", "samples", "within"),
    [
        (1e-5, 20, 100),  # 1 ms a sample; the budget would allow 100
        (1e-2, 10, 1),  # 0.1 s / 10 ms
        (1.0, 5, 1),  # never fewer than the least
    ],
)
def test_short_operations_are_repeated_within_a_sample(
    one_s: float, samples: int, within: int
) -> None:
    assert repeat_counts(one_s, POLICY) == (samples, within)


def test_the_median_counts_and_a_wide_spread_is_noisy() -> None:
    found = summed_up([1.0, 1.0, 1.0, 2.0, 2.0], POLICY, other_load=0.0)
    assert (found.time_s, found.low_s, found.high_s) == (1.0, 1.0, 2.0)
    assert found.spread == 1.0 and found.noisy


def test_bursts_are_no_noise_where_the_mean_counts() -> None:
    # Two batches come at once, then one waits: 0, 0.2, 0, 0.2, ...; every eighth of it means 0.1.
    found = summed_up([0.0, 0.2] * 80, POLICY, other_load=0.0, mean=True)
    assert found.time_s == pytest.approx(0.1)
    assert found.spread == pytest.approx(0.0) and not found.noisy


def test_load_of_others_is_noise_and_long_series_are_thinned() -> None:
    found = summed_up([1.0] * 1000, POLICY, other_load=0.2)
    assert found.noisy and found.spread == 0.0
    assert len(found.samples_s) == 200
