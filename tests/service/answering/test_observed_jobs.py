"""Stored observations change later answers, and are weighed once."""

from __future__ import annotations

import dataclasses

import pytest
from fastapi import FastAPI
from waiting import PATIENCE_S

from perfmodel.estimator import Estimator, PreparedJob
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job
from perfmodel.store.state.observation_records import ObservationFilter, StoredObservation
from perfmodel.types import Basis
from service.answering.observed_jobs import ObservedJobs
from service.state.state import State
from service.state.stored_forms import stored_job

JOB = parse_job({"model": "timm/resnet50", "mode": "training", "batch_size": 64})
A100 = "A100-SXM4-80GB"


@pytest.fixture
def state(app: FastAPI) -> State:
    state: State = app.state.dispatcher.state
    return state


@pytest.fixture
def estimator(app: FastAPI) -> Estimator:
    estimator: Estimator = app.state.dispatcher.estimator
    return estimator


@pytest.fixture
def prepared(estimator: Estimator) -> PreparedJob:
    return estimator.core.prepare(JOB)


@pytest.fixture
def observed(estimator: Estimator, state: State) -> ObservedJobs:
    return ObservedJobs(estimator, state)


def _store(
    state: State, key: str, step_time_s: float, placement: str = f'"{A100}"', job: Job = JOB
) -> None:
    seen = StoredObservation(
        job=stored_job(dataclasses.replace(job, batch_size=32)),
        key=key,
        content_hash=key,
        placement=placement,
        batch_size=64,
        accumulation_steps=1,
        step_time_s=step_time_s,
        sync_time_s=None,
    )
    state.writer.submit([seen]).result(PATIENCE_S)
    state.feed.poll()


def test_a_job_that_nobody_observed_is_answered_as_before(
    observed: ObservedJobs, prepared: PreparedJob
) -> None:
    assert observed.known(prepared) == (False, None)
    assert observed.of(prepared) is None
    assert observed.known(prepared) == (True, None)


def test_answers_move_towards_what_was_stored(
    estimator: Estimator, state: State, observed: ObservedJobs, prepared: PreparedJob
) -> None:
    placement = estimator.core.resolve(parse_placement(A100))
    before = answer_cell(estimator.core, prepared, placement)
    observed.of(prepared)
    _store(state, "1", 1.5 * before.step_time_s)
    after = answer_cell(estimator.core, prepared, placement, observed.of(prepared))
    assert after.basis is Basis.MEASURED
    assert after.step_time_s == pytest.approx(1.5 * before.step_time_s, rel=0.1)


def test_a_job_is_weighed_once_for_each_change(
    estimator: Estimator, state: State, observed: ObservedJobs, prepared: PreparedJob
) -> None:
    seconds = answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement(A100))
    ).step_time_s
    observed.of(prepared)
    _store(state, "1", seconds)
    first = observed.of(prepared)
    assert first is not None
    assert observed.of(prepared) is first
    assert observed.known(prepared) == (True, first)
    _store(state, "2", 1.1 * seconds)
    assert observed.known(prepared) == (False, None)
    second = observed.of(prepared)
    assert second is not None and len(second.observations) == 2


def test_what_is_observed_of_others_is_nothing_to_a_job_that_was_observed_itself(
    estimator: Estimator, state: State, observed: ObservedJobs, prepared: PreparedJob
) -> None:
    seconds = answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement(A100))
    ).step_time_s
    _store(state, "1", seconds)
    first = observed.of(prepared)
    _store(state, "2", 2 * seconds, job=dataclasses.replace(JOB, model="timm/resnet18"))
    assert observed.known(prepared) == (True, first)
    assert observed.of(prepared) is first


def test_strangers_are_heard_again_when_all_of_a_job_was_taken_back(
    estimator: Estimator, state: State, observed: ObservedJobs, prepared: PreparedJob
) -> None:
    seconds = answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement(A100))
    ).step_time_s
    _store(state, "1", seconds)
    _store(state, "2", 2 * seconds, job=dataclasses.replace(JOB, model="timm/resnet18"))
    own = observed.of(prepared)
    assert own is not None and own.observations and not own.shift(A100).reporters
    assert state.observations.remove(ObservationFilter(key="1")) == 1
    state.feed.forget_all()
    assert observed.known(prepared) == (False, None)
    found = observed.of(prepared)
    assert found is not None and not found.observations
    assert found.shift(A100).reporters == 1
    assert observed.known(prepared) == (True, found)


def test_what_can_no_longer_be_weighed_is_left_out(
    estimator: Estimator, state: State, observed: ObservedJobs, prepared: PreparedJob
) -> None:
    seconds = answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement(A100))
    ).step_time_s
    _store(state, "1", seconds)
    _store(state, "2", seconds, placement='"an accelerator that is gone"')
    _store(state, "3", seconds, placement='"8xGone"')
    found = observed.of(prepared)
    assert found is not None
    assert len(found.observations) == 1


def test_one_that_can_no_longer_be_weighed_costs_one_calibration_of_the_others(
    estimator: Estimator, state: State, observed: ObservedJobs, prepared: PreparedJob
) -> None:
    seconds = answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement(A100))
    ).step_time_s
    for key in range(9):
        _store(state, str(key), (1 + key / 100) * seconds)
    # Faster than its arithmetic: an administrator believes it, or the device was edited since.
    _store(state, "too fast", seconds / 1e3)
    before = len(estimator.core.evidence)
    found = observed.of(prepared)
    assert found is not None and len(found.observations) == 4  # of the newest five
    # As it was stored, and as it is returned.
    assert len(estimator.core.evidence) - before <= 2
