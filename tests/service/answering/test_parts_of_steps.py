"""Computing and communicating apart, in every matrix and curve over HTTP as in ``/v1/predict``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from perfmodel.estimator import Table
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode
from service.answering.matrix_rows import join_rows

NAMES = ("step_time_s", "compute_time_s", "sync_time_s")
JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
NAMED: dict[str, Any] = {"job_type": "mystery", "mode": "training", "batch_size": 64}
PLACES = ("A10", "4xA10", "2x(4xA10)@eth-25g", "V100-SXM2-16GB+2xT4", "2xA10 fraction=0.5")
SEEN = (("A10", 0.2, 0.0), ("4xA10", 0.25, 0.05))


def _ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def _observe(client: TestClient, job: dict[str, Any]) -> None:
    """Store steps of a job: somewhat slower than predicted where anything is."""
    steps = []
    for place, step_s, sync_s in SEEN:
        if "model" in job:
            one = _ask(client, "predict", job=job, placement=place)
            step_s, sync_s = 1.3 * one["step_time_s"], 1.2 * one["sync_time_s"]
        times = {"step_time_s": step_s, "sync_time_s": sync_s}
        steps.append({"job": job, "placement": place, **times})
    assert _ask(client, "observations", observations=steps)["accepted"] == len(SEEN)


@pytest.mark.parametrize("observed", [False, True])
def test_cells_say_what_single_answers_say(client: TestClient, observed: bool) -> None:
    jobs = [JOB, {**JOB, "mode": "inference"}, *([NAMED] if observed else [])]
    if observed:
        _observe(client, JOB)
        _observe(client, NAMED)
    # The job that is known by a name has no share of an accelerator.
    places = PLACES[:3] if observed else PLACES
    matrix = _ask(client, "matrix", jobs=jobs, placements=places)
    assert {status for row in matrix["status"] for status in row} == {"ok"}
    for row, job in enumerate(jobs):
        for column, place in enumerate(places):
            one = _ask(client, "predict", job=job, placement=place)
            for name in NAMES:
                assert matrix[name][row][column] == pytest.approx(one[name], rel=1e-9)


@pytest.mark.parametrize("job", [JOB, NAMED], ids=["model", "name"])
def test_points_of_a_curve_say_what_single_answers_say(
    client: TestClient, job: dict[str, Any]
) -> None:
    _observe(client, job)
    curve = _ask(
        client, "curve", job=job, accelerator="A10", counts=[1, 4, 8], network="eth-25g",
        accelerators_per_host=4,
    )  # fmt: skip
    for position, place in enumerate(PLACES[:3]):
        one = _ask(client, "predict", job=job, placement=place)
        for name in NAMES:
            assert curve[name][position] == pytest.approx(one[name], rel=1e-9), (place, name)
        assert curve["fits"][position] is one["memory"]["fits"]


def test_a_memory_that_is_not_known_is_null(client: TestClient) -> None:
    _observe(client, NAMED)
    matrix = _ask(client, "matrix", jobs=[NAMED, JOB], placements=["A10"])
    assert (matrix["fits"], matrix["status"]) == ([[None], [True]], [["ok"], ["ok"]])
    assert matrix["peak_bytes"][0] == [None]


def test_parts_are_null_where_there_is_no_answer(client: TestClient) -> None:
    matrix = _ask(client, "matrix", jobs=[JOB, "nonsense"], placements=["A10", "nowhere"])
    for name in NAMES:
        assert [[value is None for value in row] for row in matrix[name]] == [
            [False, True],
            [True, True],
        ]


def test_rows_that_are_put_together_are_those_of_one_matrix(app: FastAPI) -> None:
    estimator = app.state.dispatcher.estimator
    jobs = [Job(model="timm/resnet50", mode=Mode.TRAINING, batch_size=n) for n in (1, 2, 4, 8)]
    placements = [parse_placement(place) for place in PLACES]
    whole = estimator.matrix(jobs, placements)
    parts = [
        (rows, estimator.matrix([jobs[i] for i in rows], placements)) for rows in ([3, 0], [2, 1])
    ]
    joined = join_rows(parts)
    columns = [f.name for f in fields(Table) if isinstance(getattr(whole, f.name), np.ndarray)]
    assert set(NAMES) < set(columns)
    for name in columns:
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
