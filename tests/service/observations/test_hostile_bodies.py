"""Whatever is sent as observations is answered, and what is wrong with one costs that one alone."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from waiting import until

from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.state.jobs import StoredJob
from service.observations.plausibility import Bounds, Plausibility

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
GOOD: dict[str, Any] = {"job": JOB, "placement": "A100-SXM4-80GB", "step_time_s": 0.05}
#: Deeper than JSON is written again, and not too deep to be read.
_DEEP = '{"a":' * 500 + "1" + "}" * 500


def _written(**fields: Any) -> str:
    return json.dumps({**GOOD, **fields})


def _send(client: TestClient, *observations: str) -> Any:
    body = f'{{"observations": [{",".join(observations)}]}}'
    return client.post(
        "/v1/observations", content=body, headers={"Content-Type": "application/json"}
    )


@pytest.mark.parametrize(
    "one",
    [
        _written(step_time_s=True),
        _written(step_time_s="0.05"),
        _written(step_time_s=-0.0),
        _written(batch_size=64.0),
        _written(batch_size=True),
        _written(batch_size=2**24 + 1),
        _written(batch_size=10**30),
        _written(accumulation_steps=0),
        _written(placement="1000000000xA100-SXM4-80GB"),
        _written(placement=["A100-SXM4-80GB"]),
        _written(placement={"nodes": []}),
        _written(job=[]),
        _written(job={}),
        _written(job={"ref": "0" * 32, "x": 1}),
        _written(job={**JOB, "batch_size": 10**30}),
        _written().replace(json.dumps(JOB), _DEEP),
        _written(placement={"nodes": "x"}).replace('"x"', _DEEP),
        _written(software="x").replace('"x"', _DEEP),
        _written(software={str(number): "1" for number in range(17)}),
        _written(software={"": "1"}),
        _written(key=" "),
        _written(key="a\x00b"),
        _written(key="\u202e"),
        _written(key="a" * 201),
        _written(expires_in_s=-1),
        _written(expires_in_s=1e300),
        "null",
        "1",
        '"text"',
        "[]",
        "{}",
        _DEEP,
    ],
)
def test_what_is_wrong_with_one_costs_that_one_alone(shared: TestClient, one: str) -> None:
    response = _send(shared, _written(), one, _written())
    assert response.status_code == 200, response.text
    items = response.json()["observations"]
    assert [item["status"] == "refused" for item in items] == [False, True, False]
    pointer = items[1]["problem"]["errors"][0]["pointer"]
    assert pointer.startswith("/observations/1"), pointer
    # Alone it is the problem of the request.
    alone = _send(shared, one)
    assert alone.status_code == 422, alone.text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "1" + 400 * "0"])
def test_what_is_no_number_is_no_body(shared: TestClient, number: str) -> None:
    response = _send(shared, _written().replace("0.05", number))
    assert response.status_code == 400
    assert response.json()["type"].endswith("malformed-body")


def test_a_body_nested_without_end_is_refused(shared: TestClient) -> None:
    assert _send(shared, "[" * 50_000 + "]" * 50_000).status_code == 400


@pytest.mark.parametrize(("count", "status"), [(2_001, 422), (100_000, 413)])
def test_more_than_one_request_may_carry_is_refused(
    shared: TestClient, count: int, status: int
) -> None:
    # 2,001 of the least there is find room in the 200 kB that a body may have here.
    response = _send(shared, *["{}"] * count)
    assert response.status_code == status
    assert _send(shared, _written()).status_code == 200


def test_a_long_list_lets_others_in_between(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[float] = []
    bounds = Plausibility.bounds

    def slow(
        self: Plausibility, job: Job, stored: StoredJob, seen: Observation, *more: Any
    ) -> Bounds:
        judged.append(seen.step_time_s)
        time.sleep(2e-3)
        return bounds(self, job, stored, seen, *more)

    _send(client, _written())  # so that the job is captured
    monkeypatch.setattr(Plausibility, "bounds", slow)
    long = [_written(step_time_s=2.0 + number) for number in range(600)]
    with ThreadPoolExecutor(4) as pool:
        # As many as there are threads, and one.
        sent = [pool.submit(_send, client, *long) for _ in range(4)]
        until(lambda: len(judged) > 100)
        assert _send(client, _written(step_time_s=1.0)).status_code == 200
        items = sent[0].result().json()["observations"]
    # Not behind all of a list; whose answer is in its order all the same.
    assert judged.index(1.0) < 600
    assert [item["reason"].split()[2] for item in items[::200]] == ["2", "202", "402"]


def test_the_first_that_is_wrong_is_named_where_all_are(shared: TestClient) -> None:
    response = _send(shared, *[_written(batch_size=0)] * 70, _written(key=" "))
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/observations/0/batch_size"
    beyond = _send(shared, *[_written()] * 70, _written(key=" ")).json()["observations"]
    assert beyond[70]["problem"]["errors"][0]["pointer"] == "/observations/70/key"


def test_numbers_at_the_ends_of_their_range_are_kept_and_not_believed(either: TestClient) -> None:
    # The least number there is, the largest, and one beyond any integer of a database.
    ends = [5e-324, 2.2e-308, 1e308, float(10**29)]
    sent = [_written(step_time_s=end, key=str(end)) for end in ends]
    sent.append(_written(batch_size=2**24, accumulation_steps=2**24, key="large"))
    answer = _send(either, *sent).json()
    assert answer["quarantined"] == 5, answer
    listed = either.get("/v1/observations?state=quarantined").json()["observations"]
    assert [one["step_time_s"] for one in reversed(listed)] == [*ends, 0.05]


def test_of_one_key_in_one_body_the_first_stands(either: TestClient) -> None:
    question = {"job": JOB, "placement": GOOD["placement"]}
    step_s = either.post("/v1/predict", json=question).json()["step_time_s"]
    times = (step_s, 1.1 * step_s, step_s)
    sent = [_written(key="same", step_time_s=seconds) for seconds in times]
    answer = _send(either, *sent).json()
    words = [item["status"] for item in answer["observations"]]
    assert words == ["accepted", "refused", "known"]
    (listed,) = either.get("/v1/observations").json()["observations"]
    assert listed["step_time_s"] == step_s
