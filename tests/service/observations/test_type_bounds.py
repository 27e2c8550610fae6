"""Job types are judged by what was reported of them before, their own reporter first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job
from service.observations.plausibility import TypeGuesses

WRITTEN: dict[str, Any] = {"job_type": "click-rates", "mode": "training", "batch_size": 512}
JOB = parse_job(WRITTEN)
FAMILY = JOB.family
SEEN = Observation(placement=parse_placement("T4"), batch_size=512, step_time_s=1.0)


def _report(app: FastAPI, client: TestClient, reporter: str, seconds: float) -> None:
    """Store a step as that of a reporter."""
    sent = [{"job": WRITTEN, "placement": "T4", "step_time_s": seconds, "key": "1"}]
    assert client.post("/v1/observations", json=sent).json()["accepted"] == 1
    state = app.state.dispatcher.state
    (stored,) = state.observations.page(limit=1).items
    job = replace(stored.job, content=state.jobs.find(stored.job.ref).content)
    state.observations.add([replace(stored, job=job, reporter=reporter)])
    assert client.delete("/v1/observations?reporter=guest").json() == {"removed": 1}


def test_who_reported_is_judged_by_its_own_steps(app: FastAPI, client: TestClient) -> None:
    now = [100.0]
    state = app.state.dispatcher.state
    guesses = TypeGuesses(app.state.dispatcher.estimator, state.feed, clock=lambda: now[0])
    assert guesses.likely_s(JOB, FAMILY, SEEN, "one") is None
    _report(app, client, "other", 0.1)
    # A step of 0.1 s: two fifths of it the device, nine tenths the host, together 0.13 s.
    assert guesses.likely_s(JOB, FAMILY, SEEN, "one") == pytest.approx((0.04, 0.13))
    _report(app, client, "one", 10.0)
    assert guesses.likely_s(JOB, FAMILY, SEEN, "one") == pytest.approx((4.0, 13.0))
    assert guesses.likely_s(JOB, FAMILY, SEEN, "other") == pytest.approx((0.04, 0.13))


def test_a_guess_is_made_again_after_a_while(app: FastAPI, client: TestClient) -> None:
    now = [100.0]
    state = app.state.dispatcher.state
    guesses = TypeGuesses(app.state.dispatcher.estimator, state.feed, clock=lambda: now[0])

    def least_s() -> float:
        found = guesses.likely_s(JOB, FAMILY, SEEN, "guest")
        assert found is not None
        return found[0]

    def report(seconds: float, key: str) -> None:
        sent = [{"job": WRITTEN, "placement": "T4", "step_time_s": seconds, "key": key}]
        assert client.post("/v1/observations", json=sent).json()["accepted"] == 1

    report(1.0, "1")
    assert least_s() == pytest.approx(0.4)
    report(4.0, "2")
    assert least_s() == pytest.approx(0.4)
    now[0] += 11.0
    # The geometric mean of both, where there are two.
    assert least_s() == pytest.approx(0.8)
    # What is taken back counts no longer, at once.
    client.delete("/v1/observations?key=1")
    assert least_s() == pytest.approx(1.6)


@pytest.mark.parametrize("together", [True, False])
def test_the_first_steps_of_a_request_are_held_to_one_another(
    client: TestClient, together: bool
) -> None:
    job = {**WRITTEN, "job_type": f"together {together}"}
    # The first of them compiled.
    sent = [{"job": job, "placement": "T4", "step_time_s": time_s} for time_s in (900, 1, 1.01)]
    answers = [
        client.post("/v1/observations", json=some).json()
        for some in ([sent] if together else [[one] for one in sent])
    ]
    became = [one["status"] for answer in answers for one in answer["observations"]]
    alone = ["accepted", "quarantined", "quarantined"]
    assert became == (["quarantined", "accepted", "accepted"] if together else alone)
