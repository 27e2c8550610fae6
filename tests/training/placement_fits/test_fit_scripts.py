"""Tests of the fit of the gap of scripts, on made-up jobs whose gap is known."""

from __future__ import annotations

from dataclasses import replace

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration import calibration
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.script_gap import ScriptGap
from perfmodel.placement.calibration.step_response import Field
from perfmodel.training.placement_fits.fit_calibration import START
from perfmodel.training.placement_fits.fit_scripts import (
    fit_gap,
    steps_alone,
    steps_together,
)
from perfmodel.training.placement_rows.script_rows import Group, Measured

ALONE = ((1, 1, 1), (2, 1, 2))
BATCHES = (16, 32, 64, 128, 256, 512, 1024)
#: What jobs take longer on a device, by job and by kind.
JOBS, KINDS = {"a": 0.4, "b": 0.5, "c": 0.6}, {"near": 0.0, "far": 0.5}


def groups() -> dict[Group, Measured]:
    """Return three scripts on two kinds, of which one is e^0.5 times as slow as its facts say."""
    found = {}
    for job, own in JOBS.items():
        for kind, slower in KINDS.items():
            at = world.cells(ALONE, BATCHES, job=job, cluster=kind)
            at = replace(at, host_s=np.full(len(at), 1e-6))
            steps = world.measured(at, device=own + slower, seed=len(found))
            digits = np.repeat(["1", "2"], len(BATCHES))
            found[Group(job, kind)] = Measured(steps, digits, f"zoo/{job}")
    return found


@pytest.fixture(scope="module")
def gap() -> ScriptGap:
    return fit_gap(steps_alone(groups()), START)


def test_steps_on_one_accelerator_count_over_all_batches():
    found = steps_alone(groups())[Group("a", "near")]
    # Six of seven batches, evenly.
    assert found.steps.cells.batch_size.tolist() == [16, 32, 64, 128, 256, 1024]
    assert set(found.steps.cells.ranks.tolist()) == {1}
    assert set(found.steps.cells.job.tolist()) == {"zoo/a"}


def test_kinds_differ_by_what_their_jobs_differ_from_themselves(gap: ScriptGap):
    near, far = (gap.machines[kind][Field.DEVICE] for kind in KINDS)
    # Kinds 0.5 apart, believed to lie 0.3 from what all share.
    assert 0.2 < far - near < 0.5
    assert near < gap.usual[Field.DEVICE] < far
    # 0.75 on average of 3 jobs, 2 kinds and 6 pairs: 0.5^2 of 0.5^2 + 0.4^2/3 + 0.3^2/2 + 0.2^2/6.
    expected = 0.75 * 0.25 / (0.25 + 0.16 / 3 + 0.09 / 2 + 0.04 / 6)
    assert gap.usual[Field.DEVICE] == pytest.approx(expected, abs=0.05)
    assert gap.jobs == {"far": 3, "near": 3}


def test_the_spread_is_that_of_models_left_out(gap: ScriptGap):
    plain = [START.sds[f"device.level.{scope}"] for scope in ("job", "own")]
    # Jobs lie 0.1 apart, where 0.4 and 0.2 were believed.
    assert 0.02 < gap.sds[Field.DEVICE] < np.hypot(*plain)


def test_of_one_model_nothing_can_be_left_out():
    one = {group: each for group, each in steps_alone(groups()).items() if group.job == "a"}
    assert fit_gap(one, START).sds[Field.DEVICE] == pytest.approx(np.hypot(0.4, 0.2))


def communicating(*, logged: bool) -> dict[Group, Measured]:
    """Return three scripts on one kind whose links take e^1.5 times as long as predicted.

    Steps are short enough to show what is sent within a host.
    """
    found = {}
    for job in JOBS:
        at = world.cells(((1, 1, 1), (4, 1, 4), (8, 2, 4), (16, 4, 4)), (1, 4, 16), job=job)
        steps = world.measured(at, communication=1.5, seed=len(found))
        sync = steps.sync_time_s if logged else np.full(len(at), np.nan)
        digits = np.repeat("", len(at))
        found[Group(job, "near")] = Measured(replace(steps, sync_time_s=sync), digits, f"zoo/{job}")
    return found


def test_links_are_as_slow_as_their_jobs_found_them():
    jobs = communicating(logged=True)
    gap = fit_gap(steps_alone(jobs), START, steps_together(jobs))
    link = gap.links["cluster"]["cluster"]
    assert (link.least, link.most) == ((4.0, 1.0, 4.0), (16.0, 4.0, 4.0))
    # Three jobs that agree; what is believed beforehand takes a part of it.
    for place in ((4.0, 1.0, 4.0), (16.0, 4.0, 4.0)):
        assert 1.0 < link.mean(*place)[Field.COMMUNICATION] < 1.6
    # Devices are learned from steps on one accelerator, with or without links.
    assert gap.machines == fit_gap(steps_alone(jobs), START).machines


def test_a_fit_weighs_all_of_its_steps_together(monkeypatch: pytest.MonkeyPatch):
    jobs = communicating(logged=True)
    every = fit_gap(steps_alone(jobs), START, steps_together(jobs))
    # As many as an answer waits for are no matter of a fit.
    monkeypatch.setattr(calibration, "MOST_TOGETHER", 9)
    few = fit_gap(steps_alone(jobs), START, steps_together(jobs))
    assert few.links == every.links
    assert few.machines == every.machines


def test_without_a_log_of_synchronisation_links_are_left_alone():
    jobs = communicating(logged=False)
    assert steps_together(jobs) == {}
    assert fit_gap(steps_alone(jobs), START, steps_together(jobs)).links == {}


def test_some_steps_within_a_host_count_and_some_on_several():
    cells = steps_together(communicating(logged=True))[Group("a", "near")].steps.cells
    # Three batches of one placement within a host, six on several.
    assert sorted(cells.hosts.tolist()) == [1] * 3 + [2] * 3 + [4] * 3
    assert np.all(cells.ranks > 1)


def test_the_fitted_gap_is_that_of_the_fitted_prior():
    scripts = ResidualPrior.of_scripts(START)
    assert scripts.bare == 1.0
    assert scripts.gap is not None
