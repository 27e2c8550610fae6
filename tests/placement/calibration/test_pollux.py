"""Tests of Pollux's form: its equation, and that a fit finds parameters that made the steps."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.placement.calibration.pollux import PolluxParameters, fit_pollux

JOB = PolluxParameters(
    alpha_c=0.02, beta_c=0.001, alpha_n=0.08, beta_n=0.004, alpha_r=0.03, beta_r=0.001, gamma=3.0
)
HOSTS = np.array([1, 1, 1, 2, 2, 4, 4, 1, 2, 4])
REPLICAS = np.array([1, 2, 4, 2, 8, 8, 16, 1, 4, 16])
BATCH = np.array([16, 16, 32, 16, 32, 64, 32, 64, 128, 256])


def test_one_replica_never_waits():
    # 0.02 + 0.001 * 30 s.
    assert JOB.step_time_s(1, 1, 30) == pytest.approx(0.05)


def test_sync_depends_on_where_the_replicas_are():
    # Four replicas: 0.03 + 2 * 0.001 in a host, 0.08 + 2 * 0.004 across hosts.
    assert JOB.sync_time_s([1, 2], [4, 4]).tolist() == pytest.approx([0.032, 0.088])


def test_a_large_exponent_hides_the_shorter_one():
    hidden = PolluxParameters(
        alpha_c=1.0, beta_c=1e-9, alpha_n=0.5, beta_n=0.0, alpha_r=0.5, beta_r=0.0, gamma=10.0
    )
    # (1 + 0.5^10)^(1/10) is 1.0001.
    assert hidden.step_time_s(1, 2, 1) == pytest.approx(1.0, rel=2e-4)


def test_the_fit_finds_what_made_the_steps():
    steps = JOB.step_time_s(HOSTS, REPLICAS, BATCH)
    found = fit_pollux(HOSTS, REPLICAS, BATCH, steps, JOB.compute_time_s(BATCH))
    answered = found.step_time_s([2, 4, 1], [6, 12, 3], [48, 48, 48])
    assert answered == pytest.approx(JOB.step_time_s([2, 4, 1], [6, 12, 3], [48, 48, 48]), rel=0.06)
    assert found.beta_c == pytest.approx(0.001, rel=0.02)


def test_one_step_is_enough_for_an_answer():
    found = fit_pollux([1], [1], [32], [0.1])
    assert found.step_time_s(1, 1, 32) == pytest.approx(0.1, rel=0.1)
    assert np.isfinite(found.step_time_s(4, 16, 64))


@pytest.mark.parametrize("times", [[0.0], [-1.0], [float("nan")]])
def test_a_time_that_is_none_is_refused(times):
    with pytest.raises(InvalidInputError, match="above zero"):
        fit_pollux([1], [1], [8], times)
