"""Measured steps are taken in, judged, listed, and found again."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from perfmodel.requests import parse_job
from service.answering import answerer
from service.schemas.state_bodies import ObservationsAnswer, ObservationsTaken
from service.state.state import State

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
A100 = "A100-SXM4-80GB"


def _state(client: Any) -> State:
    state: State = client.app.state.dispatcher.state
    return state


def _predicted_s(client: TestClient, placement: str = A100) -> float:
    answer = client.post("/v1/predict", json={"job": JOB, "placement": placement})
    seconds: float = answer.json()["step_time_s"]
    return seconds


def _observe(client: TestClient, *observations: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/v1/observations", json={"observations": observations})
    assert response.status_code == 200, response.text
    ObservationsTaken.model_validate_json(response.content, strict=True)
    answer: dict[str, Any] = response.json()
    return answer


def _words(answer: dict[str, Any]) -> list[str]:
    return [item["status"] for item in answer["observations"]]


def test_an_observation_is_kept_with_its_job(either: TestClient) -> None:
    seconds = _predicted_s(either)
    answer = _observe(either, {"job": JOB, "placement": A100, "step_time_s": seconds, "key": "1"})
    assert _words(answer) == ["accepted"]
    ref = answer["observations"][0]["job"]
    assert either.post("/v1/jobs", json={"job": JOB}).json()["ref"] == ref
    (seen,) = _state(either).feed.of(parse_job(JOB).family)
    assert (seen.step_time_s, seen.batch_size, seen.accumulation_steps) == (seconds, 64, 1)


def test_a_job_that_was_asked_about_is_not_read_to_be_observed(
    either: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = _predicted_s(either)
    monkeypatch.delattr(answerer, "parse_job")
    answer = _observe(either, {"job": JOB, "placement": A100, "step_time_s": seconds})
    assert _words(answer) == ["accepted"]


def test_what_is_sent_again_counts_once(either: TestClient) -> None:
    seconds = _predicted_s(either)
    observation = {"job": JOB, "placement": A100, "step_time_s": seconds}
    keyed = {**observation, "key": "run/1"}
    assert _words(_observe(either, observation, keyed)) == ["accepted", "accepted"]
    assert _words(_observe(either, observation, keyed)) == ["known", "known"]
    other = _observe(either, {**keyed, "step_time_s": seconds * 1.1})
    assert _words(other) == ["refused"]
    assert "key" in other["observations"][0]["problem"]["detail"]
    assert len(_state(either).feed.of(parse_job(JOB).family)) == 2


def test_equal_placements_in_other_words_are_one_cell(client: TestClient) -> None:
    seconds = _predicted_s(client)
    short = {"job": JOB, "placement": A100, "step_time_s": seconds}
    long = {**short, "placement": {"nodes": [{"accelerator": A100}]}}
    assert _words(_observe(client, short, long)) == ["accepted", "known"]


def test_one_card_is_one_cell_however_it_is_spelled(client: TestClient) -> None:
    seconds = _predicted_s(client)
    spelled = (A100, "NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb", "gpu:a100-sxm4-80gb")
    seen = [{"job": JOB, "placement": one, "step_time_s": seconds} for one in spelled]
    assert _words(_observe(client, *seen)) == ["accepted", "known", "known", "known"]
    half = "A100-SXM4-80GB/3g.40gb"
    slices = [
        {**seen[0], "placement": one, "step_time_s": 3 * seconds} for one in (half, half.lower())
    ]
    assert _words(_observe(client, *slices)) == ["accepted", "known"]
    listed = client.get("/v1/observations").json()["observations"]
    assert [one["placement"] for one in listed] == [half, A100]


def test_a_reference_stands_for_the_job(client: TestClient) -> None:
    ref = client.post("/v1/jobs", json={"job": JOB}).json()["ref"]
    seconds = _predicted_s(client)
    answer = _observe(client, {"job": ref, "placement": A100, "step_time_s": seconds})
    assert answer["observations"][0]["job"] == ref
    assert len(_state(client).feed.of(parse_job(JOB).family)) == 1


def test_batches_of_one_job_share_their_observations(client: TestClient) -> None:
    seconds = _predicted_s(client)
    _observe(client, {"job": {**JOB, "batch_size": 32}, "placement": A100, "step_time_s": seconds})
    (seen,) = _state(client).feed.of(parse_job(JOB).family)
    assert seen.batch_size == 32
    assert _state(client).feed.of(parse_job({**JOB, "mode": "inference"}).family) == ()


@pytest.mark.parametrize(("factor", "words"), [(1e-3, "at the peak"), (1e3, "times what is")])
def test_a_wrong_unit_is_quarantined(client: TestClient, factor: float, words: str) -> None:
    # A thousandth and a thousandfold of what is predicted: milliseconds where seconds belong.
    seconds = _predicted_s(client) * factor
    answer = _observe(client, {"job": JOB, "placement": A100, "step_time_s": seconds})
    (item,) = answer["observations"]
    assert item["status"] == "quarantined" and words in item["reason"]
    assert answer["quarantined"] == 1
    assert _state(client).feed.of(parse_job(JOB).family) == ()
    (listed,) = client.get("/v1/observations?state=quarantined").json()["observations"]
    assert listed["reason"] == item["reason"]


def test_one_that_cannot_be_read_is_refused_alone(client: TestClient) -> None:
    seconds = _predicted_s(client)
    good = {"job": JOB, "placement": A100, "step_time_s": seconds}
    answer = _observe(
        client,
        {**good, "step_time_ms": 5},
        {**good, "step_time_s": -1},
        {**good, "placement": "8xA1000"},
        {**good, "job": "0" * 32},
        {**good, "job": {**JOB, "model": "timm/resnt50"}},
        {**good, "sync_time_s": 2 * seconds},
        {**good, "key": "a\nb"},
        good,
    )
    assert _words(answer) == ["refused"] * 7 + ["accepted"]
    assert (answer["refused"], answer["accepted"]) == (7, 1)
    pointers = [item["problem"]["errors"][0]["pointer"] for item in answer["observations"][:7]]
    assert [pointer.removeprefix(f"/observations/{i}") for i, pointer in enumerate(pointers)] == [
        "/step_time_ms", "/step_time_s", "/placement/nodes/0/accelerator", "/job", "/job/model",
        "/sync_time_s", "/key",
    ]  # fmt: skip


@pytest.mark.parametrize("nothing", ["", 0, False, []])
@pytest.mark.parametrize("field", ["software", "key", "expires_in_s", "placement"])
def test_what_is_stated_and_empty_is_refused_unless_it_is_null(
    client: TestClient, field: str, nothing: Any
) -> None:
    seconds = _predicted_s(client)
    good = {"job": JOB, "placement": A100, "step_time_s": seconds}
    answer = _observe(client, {**good, field: nothing}, {**good, "software": {}})
    assert _words(answer) == ["refused", "accepted"]


@pytest.mark.parametrize("placement", [f"{A100}/2g.20gb", f"2x{A100}/1g.10gb"])
def test_slices_of_an_accelerator_are_observed_as_it_is(client: TestClient, placement: str) -> None:
    seconds = _predicted_s(client, placement)
    seen = {"job": JOB, "placement": placement, "step_time_s": seconds}
    assert _words(_observe(client, seen)) == ["accepted"]
    (point,) = client.get("/v1/accuracy").json()["points"]
    assert point["accelerator"] == A100
    counted = f'perfmodel_observed_predictions_total{{accelerator="{A100}",covered="yes"}} 1.0'
    assert counted in client.get("/metrics").text


def test_a_request_of_which_nothing_can_be_read_is_refused(client: TestClient) -> None:
    for body in (
        {},
        {"observations": []},
        {"observations": "x"},
        {"observations": [{"placement": A100, "step_time_s": 1}]},
        {"observations": [{}] * 2_001},
    ):
        response = client.post("/v1/observations", json=body)
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"].startswith("/observations")


def test_the_list_alone_is_a_body(client: TestClient) -> None:
    seconds = _predicted_s(client)
    body = [{"job": JOB, "placement": A100, "step_time_s": seconds}]
    assert client.post("/v1/observations", json=body).json()["accepted"] == 1


TYPE: dict[str, Any] = {"job_type": "click-rates", "mode": "training", "batch_size": 512}


def _step(seconds: float, *, placement: str = A100, **more: Any) -> dict[str, Any]:
    return {"job": TYPE, "placement": placement, "step_time_s": seconds, **more}


def test_the_first_step_of_a_job_type_is_taken_at_its_word(client: TestClient) -> None:
    assert _words(_observe(client, _step(0.2))) == ["accepted"]
    assert len(_state(client).feed.of(parse_job(TYPE).family)) == 1


def test_a_step_that_no_job_has_is_refused(client: TestClient) -> None:
    slow = _step(86_400.0, job={**TYPE, "job_type": "slow"})
    answer = _observe(client, _step(9.9e-6), _step(86_401.0), _step(1e-5), slow)
    assert _words(answer) == ["refused", "refused", "accepted", "accepted"]
    pointer = answer["observations"][0]["problem"]["errors"][0]["pointer"]
    assert pointer == "/observations/0/step_time_s"


# A step of 0.2 s: 0.08 s of its device and 0.18 s of its host are guessed, so that 0.4 ms to 52 s
# are believed. Of twice the batch the device takes 0.16 s: 0.8 ms to 68 s.
@pytest.mark.parametrize(
    ("seconds", "batch_size", "word"),
    [
        (0.0005, 512, "accepted"), (0.0003, 512, "quarantined"), (0.0002, 512, "quarantined"),
        (50.0, 512, "accepted"), (54.0, 512, "quarantined"), (200.0, 512, "quarantined"),
        (0.0007, 1024, "quarantined"), (0.0009, 1024, "accepted"),
        (60.0, 1024, "accepted"), (70.0, 1024, "quarantined"),
    ],
)  # fmt: skip
def test_later_steps_of_a_job_type_are_held_to_the_earlier(
    client: TestClient, seconds: float, batch_size: int, word: str
) -> None:
    _observe(client, _step(0.2))
    answer = _observe(client, _step(seconds, batch_size=batch_size))
    assert _words(answer) == [word]
    if word == "quarantined":
        reason = answer["observations"][0]["reason"]
        assert ("more than 200 times" if seconds > 1 else "less than a 200th") in reason


def test_a_slower_accelerator_may_take_longer(client: TestClient) -> None:
    # On a CPU the device is guessed to take far more than 200 times as long as on an H100.
    _observe(client, _step(0.2, placement="H100-SXM5-80GB"))
    assert _words(_observe(client, _step(54.0, placement="H100-SXM5-80GB"))) == ["quarantined"]
    assert _words(_observe(client, _step(54.0, placement="T4"))) == ["accepted"]


def test_what_was_wrong_at_first_can_be_taken_back(client: TestClient) -> None:
    assert _words(_observe(client, _step(200.0, key="ms"))) == ["accepted"]
    assert _words(_observe(client, _step(0.2, key="s"))) == ["quarantined"]
    assert client.delete("/v1/observations?key=ms").json() == {"removed": 1}
    assert _words(_observe(client, _step(0.2, key="s again"))) == ["accepted"]


def test_observations_are_listed_by_job_in_pages(either: TestClient) -> None:
    seconds = _predicted_s(either)
    for key in "abc":
        _observe(either, {"job": JOB, "placement": A100, "step_time_s": seconds, "key": key})
    other = {"job_type": "other", "mode": "training", "batch_size": 1}
    _observe(either, {"job": other, "placement": A100, "step_time_s": 0.1})
    ref = either.post("/v1/jobs", json={"job": JOB}).json()["ref"]
    first = either.get("/v1/observations", params={"job": ref, "limit": 2})
    ObservationsAnswer.model_validate_json(first.content, strict=True)
    cursor = first.json()["next_cursor"]
    second = either.get("/v1/observations", params={"job": ref, "cursor": cursor})
    listed = [*first.json()["observations"], *second.json()["observations"]]
    assert [seen["key"] for seen in listed] == ["c", "b", "a"]
    assert {seen["job"] for seen in listed} == {ref}
    assert listed[0]["placement"] == A100
    assert len(either.get("/v1/observations").json()["observations"]) == 4
    assert either.get("/v1/observations?job=nobody").status_code == 422
    assert either.get("/v1/observations?state=lost").status_code == 422


def test_a_stored_step_counts_once_however_many_batches_of_its_job_are_asked_about(
    client: TestClient,
) -> None:
    seconds = _predicted_s(client)
    _observe(
        client,
        {"job": JOB, "placement": A100, "step_time_s": 1.5 * seconds, "key": "1"},
        {"job": JOB, "placement": A100, "step_time_s": 3.0 * seconds, "key": "2"},
    )
    batches = [{**JOB, "batch_size": size} for size in (16, 64, 128)]
    together = client.post("/v1/matrix", json={"jobs": batches, "placements": [A100, "T4"]}).json()
    for row, job in enumerate(batches):
        alone = client.post("/v1/matrix", json={"jobs": [job], "placements": [A100, "T4"]}).json()
        for column in ("step_time_s", "low", "high"):
            assert together[column][row] == pytest.approx(alone[column][0], rel=1e-9)


def test_each_of_very_many_stored_cells_is_answered_as_it_was_measured(client: TestClient) -> None:
    jobs = [{**JOB, "batch_size": size} for size in range(8, 308)]
    table = client.post("/v1/matrix", json={"jobs": jobs, "placements": [A100]}).json()
    steps_s = [1.2 * seconds for (seconds,) in table["step_time_s"]]
    for start in range(0, len(jobs), 100):
        some = zip(jobs[start : start + 100], steps_s[start : start + 100], strict=True)
        _observe(client, *({"job": job, "placement": A100, "step_time_s": s} for job, s in some))
    # Those told first, too.
    for at in (0, 1, 150, 299):
        answer = client.post("/v1/predict", json={"job": jobs[at], "placement": A100}).json()
        assert answer["basis"] == "measured"
        assert answer["step_time_s"] == pytest.approx(steps_s[at], rel=0.05)
