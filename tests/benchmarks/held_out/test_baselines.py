"""Baselines find the constants that the times were made with."""

import numpy as np
import pytest
from held_out.baselines import (
    BASELINES,
    FittedRoofline,
    MeanRate,
    Totals,
    Transfer,
)
from held_out.step_totals import job_of, step_totals
from held_out_steps import SPEEDS, corpus, sample, sketches, time_s

SAMPLES = corpus(noise=0.0)


def _on(name: str) -> list:
    return [s for s in SAMPLES if s.step.accelerator.name == name]


def _steps(samples: list) -> list:
    return [s.step for s in samples]


def _times(samples: list) -> np.ndarray:
    return np.array([s.step_time_s for s in samples])


@pytest.mark.parametrize("name", BASELINES)
def test_answers_are_times_or_nothing(name: str) -> None:
    known, asked = _on("Slow-1") + _on("Mid-2"), _on("Fast-4")
    times = BASELINES[name](0).fit(known).predict(_steps(asked))
    assert times.shape == (len(asked),)
    assert np.all(times[np.isfinite(times)] > 0)
    assert np.isfinite(times).any()


def test_the_mean_rate_is_a_geometric_mean_of_the_device() -> None:
    known = _on("Slow-1")
    # T^ = FLOPs x the geometric mean of T / FLOPs.
    flops = np.array([step_totals(s.step).flops for s in known])
    expected = flops * np.exp(np.mean(np.log(_times(known) / flops)))
    np.testing.assert_allclose(MeanRate().fit(SAMPLES).predict(_steps(known)), expected)


def test_one_efficiency_explains_times_that_are_a_multiple_of_the_roofline() -> None:
    known = [
        sample(sketch, "Mid-2", model=model, family=family)
        for family, model, sketch in sketches(4, 2)
    ]
    tripled = [
        type(s)(**{**vars(s), "step_time_s": 3.0 * step_totals(s.step).roofline_s}) for s in known
    ]
    baseline = FittedRoofline().fit(tripled)
    np.testing.assert_allclose(baseline.predict(_steps(tripled)), _times(tripled))


def test_roofline_is_the_larger_of_compute_and_memory_summed_over_nodes() -> None:
    (_, _, sketch), *_ = sketches(1, 1)
    one = sample(sketch, "Mid-2", model="m", family="f")
    # Mid-2: peak 4e11 FLOP/s, 2e11 B/s.
    by_node = np.maximum(sketch.flops / 4e11, sketch.traffic_bytes / 2e11)
    assert step_totals(one.step).roofline_s == pytest.approx(float(sketch.count @ by_node))


def test_a_job_is_the_same_on_every_device_and_at_every_batch_size() -> None:
    first, second = _on("Slow-1")[0], _on("Fast-4")[0]
    assert first.model == second.model
    assert job_of(first.step) == job_of(second.step)
    assert len({job_of(s.step) for s in SAMPLES}) == len({s.model for s in SAMPLES})


def test_transfer_scales_by_peaks_until_it_has_seen_the_device() -> None:
    known, asked = _on("Mid-2"), _on("Fast-4")
    baseline = Transfer().fit(known)
    # Peaks 4e11 and 8e11: half of the time elsewhere.
    elsewhere = np.array([time_s(s.step.sketch, "Mid-2") for s in asked])
    np.testing.assert_allclose(baseline.predict(_steps(asked)), elsewhere / 2)
    probes = asked[:6]
    adapted = baseline.adapt(probes)
    ratio = np.exp(np.mean(np.log(_times(probes) / elsewhere[:6])))
    np.testing.assert_allclose(adapted.predict(_steps(asked)), elsewhere * ratio)
    # The baseline itself stays as it was.
    np.testing.assert_allclose(baseline.predict(_steps(asked)), elsewhere / 2)


def test_transfer_has_no_answer_for_a_job_that_was_measured_nowhere() -> None:
    known = [s for s in _on("Mid-2") if s.family != "family3"]
    asked = [s for s in _on("Fast-4") if s.family == "family3"]
    assert np.isnan(Transfer().fit(known).predict(_steps(asked))).all()


def test_totals_learn_and_are_scaled_by_probes() -> None:
    known = _on("Slow-1") + _on("Mid-2")
    baseline = Totals(rounds=120).fit(known)
    errors = np.abs(baseline.predict(_steps(known)) / _times(known) - 1.0)
    assert errors.mean() < 0.05
    doubled = [type(s)(**{**vars(s), "step_time_s": 2 * s.step_time_s}) for s in known[:4]]
    plain = baseline.predict(_steps(known[:4]))
    factor = np.exp(np.mean(np.log(_times(doubled) / plain)))
    np.testing.assert_allclose(
        baseline.adapt(doubled).predict(_steps(known)), factor * baseline.predict(_steps(known))
    )


def test_speeds_are_in_order() -> None:
    (_, _, sketch), *_ = sketches(1, 1)
    assert [time_s(sketch, n) for n in SPEEDS] == sorted(
        (time_s(sketch, n) for n in SPEEDS), reverse=True
    )
