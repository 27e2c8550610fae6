"""Tests of jobs whose caller says whether they are scripts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.observed_rows import single_step, step_cells
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.explain.explain import SCRIPT
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.slowdowns import BY_NEIGHBOURS, Slowdown
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.placement.feeding.input_samples import InputConstants
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import RUNG, Basis, Mode

JOB = Job(model="zoo/one", mode=Mode.TRAINING, batch_size=5000)
OTHER = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=5000)
SCRIPT_JOB, BARE = replace(JOB, script=True), replace(JOB, script=False)
ONE, FOUR = parse_placement("V100-SXM2-16GB"), parse_placement("4xV100-SXM2-16GB")
PLACES = (ONE, FOUR, parse_placement("A10"), parse_placement("2x(4xA10)@eth-25g"))


def seen(step_time_s: float, **of: object) -> Observation:
    return Observation(placement=ONE, batch_size=5000, step_time_s=step_time_s, **of)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", PLACES)
def test_an_unobserved_script_takes_longer_and_says_so(estimator: Estimator, place):
    clean, script = estimator.estimate(JOB, place), estimator.estimate(SCRIPT_JOB, place)
    assert script.script_efficiency == pytest.approx(clean.step_time_s / script.step_time_s)
    assert script.script_efficiency < 1
    high_over_low = [one.throughput.high / one.throughput.low for one in (script, clean)]
    assert high_over_low[0] > 3 > high_over_low[1]
    assert RUNG[script.basis] >= RUNG[Basis.INTERPOLATED]
    (said,) = [text for text in script.warnings if "said to be a script" in text]
    assert ("published jobs on V100-SXM2-16GB" in said) == (place in (ONE, FOUR))
    assert ("none of them ran on" in said) == (place not in (ONE, FOUR))


@pytest.mark.parametrize("place", PLACES)
def test_an_unobserved_bare_step_is_the_predicted_one_but_for_what_scripts_keep(
    estimator: Estimator, place
):
    bare, usual = estimator.estimate(BARE, place), estimator.estimate(JOB, place)
    assert replace(bare, memory=usual.memory) == usual
    assert 0 < bare.memory.peak_bytes < usual.memory.peak_bytes


def test_one_observation_of_a_bare_step_leaves_little_open(estimator: Estimator):
    # A sixth longer than predicted: to a bare job that is the predictor's error.
    step_s = estimator.estimate(JOB, ONE).step_time_s
    wide = {
        job.script: estimator.estimate(job, FOUR, [seen(1.15 * step_s)])
        for job in (SCRIPT_JOB, JOB, BARE)
    }
    ratio = {said: one.throughput.high / one.throughput.low for said, one in wide.items()}
    assert ratio[False] <= ratio[None] * (1 + 1e-9) < ratio[True]


@pytest.mark.parametrize("job", [SCRIPT_JOB, BARE])
def test_an_observed_cell_is_echoed_whatever_is_said(estimator: Estimator, job: Job):
    for factor in (1.1, 6.0):
        step_s = factor * estimator.estimate(JOB, ONE).step_time_s
        answer = estimator.estimate(job, ONE, [seen(step_s)])
        assert answer.step_time_s == pytest.approx(step_s, rel=0.05)
        assert answer.basis is Basis.MEASURED
        assert not any("said to be a script" in text for text in answer.warnings)


def test_what_was_observed_of_a_job_counts_whatever_it_was_said_to_be(estimator: Estimator):
    step_s = 3 * estimator.estimate(JOB, ONE).step_time_s
    as_reported = estimator.estimate(SCRIPT_JOB, FOUR, [seen(step_s, job=BARE)])
    assert as_reported == estimator.estimate(SCRIPT_JOB, FOUR, [seen(step_s)])
    assert as_reported.basis is Basis.CALIBRATED


def test_rows_of_a_matrix_differ_by_what_is_said_and_share_what_was_observed(estimator: Estimator):
    jobs = [JOB, SCRIPT_JOB, BARE, replace(SCRIPT_JOB, batch_size=64)]
    for observations in ({}, {0: [seen(3 * estimator.estimate(JOB, ONE).step_time_s)]}):
        table = estimator.matrix(jobs, [ONE, FOUR], observations)
        assert not table.errors
        own = observations.get(0, ())
        for row, job in enumerate(jobs):
            for column, place in enumerate((ONE, FOUR)):
                one = estimator.estimate(job, place, own)
                found = table.step_time_s[row, column]
                # Neighbouring rows tell each other of the machine where something was observed.
                assert found == pytest.approx(one.step_time_s, rel=1e-9 if not own else 0.05)


def test_a_script_is_told_by_jobs_beside_it_rather_than_by_published_ones(estimator: Estimator):
    step_s = 2 * estimator.estimate(OTHER, ONE).step_time_s
    told = estimator.estimate(SCRIPT_JOB, ONE, [seen(step_s, job=OTHER)])
    alone = estimator.estimate(SCRIPT_JOB, ONE)
    assert told.step_time_s < alone.step_time_s
    assert told.script_efficiency is not None
    assert not any("said to be a script" in text for text in told.warnings)


def test_strangers_do_not_move_a_script(estimator: Estimator):
    step_s = 4 * estimator.estimate(OTHER, ONE).step_time_s
    strangers = Strangers(
        estimator.core, [seen(step_s, job=OTHER, reporter=name) for name in ("a", "b", "c")]
    )
    prepared, place = estimator.core.prepare(SCRIPT_JOB), estimator.core.resolve(ONE)
    moved = answer_cell(
        estimator.core, prepared, place, observed_job(estimator.core, prepared, [], strangers)
    )
    assert moved == estimator.estimate(SCRIPT_JOB, ONE)


def test_curve_and_explanation_are_of_the_longer_step(estimator: Estimator):
    asked = CurveQuestion(accelerator="V100-SXM2-16GB", counts=(1, 4))
    curve = estimator.curve(SCRIPT_JOB, asked)
    steps = [estimator.estimate(SCRIPT_JOB, place).step_time_s for place in (ONE, FOUR)]
    assert np.allclose(curve.step_time_s, steps)
    assert any("said to be a script" in text for text in curve.warnings)
    explained = estimator.explain(SCRIPT_JOB, FOUR)
    assert explained.estimate.step_time_s == pytest.approx(steps[1])
    assert SCRIPT in str(explained.to_dict())


def test_a_script_has_to_be_fed_and_waits_for_the_loaders_of_its_neighbours(estimator: Estimator):
    core = estimator.core
    # 5,000 rows of 64 numbers of four bytes.
    expected_s = 5000 * 64 * 4 * InputConstants.fitted().collate_s_per_byte
    for job, beside, times in (
        (JOB, 3.0, 0.0),
        (BARE, 3.0, 0.0),
        (SCRIPT_JOB, 1.0, 1.0),
        (SCRIPT_JOB, 3.0, 3.0),
    ):
        prepared, placement = core.prepare(job), core.resolve(ONE)
        slow = (Slowdown(factor=2 * beside, factors=((BY_NEIGHBOURS, beside), ("limit", 2.0))),)
        columns = ReplicaColumns.of([placement])
        cells = step_cells([prepared], StepParts.of(np.ones(1)), columns, slowdowns=[slow])
        assert cells.input_s == pytest.approx(times * expected_s)
        alone = single_step(prepared, StepNumbers(1.0), placement, slow)
        assert alone.input_s == pytest.approx(times * expected_s)
        # A placement that says what feeds it has been waited for already.
        stated = StepParts.of(np.ones(1), input_stall_s=np.ones(1))
        assert step_cells([prepared], stated, columns, slowdowns=[slow]).input_s == 0.0
        assert single_step(prepared, StepNumbers(1.0, 0.0, 1.0), placement, slow).input_s == 0.0
