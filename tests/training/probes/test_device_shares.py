"""Shares of a step by kind of work: they add up, and follow the device."""

from dataclasses import replace

import numpy as np
import pytest
from held_out_steps import corpus, device, sample, sketches

from perfmodel.training.probes.device_shares import KINDS, LAUNCH_S, DeviceShares, kind_shares
from perfmodel.training.probes.probe_plan import ProbeChooser
from perfmodel.types import Mode

STEPS = [one.step for one in corpus(families=4, per_family=3)]


def test_shares_add_up_to_one() -> None:
    for step in STEPS:
        shares = kind_shares(step)
        assert shares.shape == (len(KINDS),)
        assert shares.sum() == pytest.approx(1.0)
        assert np.all(shares >= 0)


def test_launches_rule_on_a_device_without_limits() -> None:
    endless = replace(device("Mid-2"), peak_flops={"fp32": 1e20}, bandwidth_bytes_per_s=1e20)
    for step in STEPS:
        assert kind_shares(replace(step, accelerator=endless))[-1] == pytest.approx(1.0)


def test_the_share_of_a_kind_is_the_slope_of_the_log_time() -> None:
    (_, _, sketch), *_ = sketches(1, 1)
    step = sample(sketch, "Slow-1", model="m", family="f").step
    spec = step.accelerator

    def time_s(slower: float) -> float:
        """Roofline time with matrix work slower by a factor, launches as the least."""
        peak = spec.peak_flops["fp32"]
        by_node = np.maximum(sketch.flops / peak, sketch.traffic_bytes / spec.bandwidth_bytes_per_s)
        by_node = np.maximum(by_node, LAUNCH_S["gpu"])
        contracts = np.array(["mm" in op for op in sketch.ops])
        busy = by_node > LAUNCH_S["gpu"]
        return float(sketch.count @ (by_node * np.where(contracts & busy, slower, 1.0)))

    slope = (np.log(time_s(1.001)) - np.log(time_s(1.0))) / np.log(1.001)
    shares = kind_shares(step)
    assert shares[3] + shares[4] == pytest.approx(slope, rel=1e-2)


def test_features_fit_the_prior() -> None:
    chooser = DeviceShares()
    assert isinstance(chooser, ProbeChooser)
    features = chooser.device_features(STEPS)
    assert features.shape == (len(STEPS), len(chooser.device_prior_))
    np.testing.assert_array_equal(features[:, 1], [s.mode is Mode.TRAINING for s in STEPS])
