"""kube-scheduler's extender, to the byte."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cluster_bodies import A100, H100, T4, extender_args, job_text, node, pod
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.kubernetes.extender import Args, host_priorities
from service.adapters.kubernetes.pods import JobName, Pod
from service.adapters.kubernetes.rates import RETRY_S, Cell
from service.answering import answerer

PREFIX = "/kubernetes/scheduler"
NODES = [node("n1", H100), node("n2", T4), node("n3", H100), node("cpu-1", None)]


def _scores(client: TestClient, args: dict[str, Any]) -> dict[str, int]:
    response = client.post(f"{PREFIX}/prioritize", json=args)
    assert response.status_code == 200, response.text
    return {item["Host"]: item["Score"] for item in response.json()}


def test_prioritize_answers_a_host_priority_list(client: TestClient) -> None:
    args = extender_args(pod(job_text()), [node("n1", H100), node("n2", None)])
    response = client.post(f"{PREFIX}/prioritize", json=args)
    assert response.headers["content-type"] == "application/json"
    assert response.content == b'[{"Host":"n1","Score":10},{"Host":"n2","Score":5}]'


def test_a_faster_accelerator_scores_more_and_equal_ones_the_same(client: TestClient) -> None:
    scores = _scores(client, extender_args(pod(job_text()), NODES))
    assert list(scores) == ["n1", "n2", "n3", "cpu-1"]
    assert scores["n1"] == scores["n3"] == 10
    assert 1 <= scores["n2"] < 10
    assert scores["cpu-1"] == 5  # nothing is known of it


def test_names_alone_are_scored_from_labels_seen_before(client: TestClient) -> None:
    seen = _scores(client, extender_args(pod(job_text()), NODES))
    names = [item["metadata"]["name"] for item in NODES]
    assert _scores(client, extender_args(pod(job_text()), None, names)) == seen


def test_a_name_that_was_never_seen_is_neutral(client: TestClient) -> None:
    assert _scores(client, extender_args(pod(job_text()), None, ["stranger"])) == {"stranger": 5}


def test_keys_are_taken_in_any_case(client: TestClient) -> None:
    args = extender_args(pod(job_text()), NODES)
    lower = {key.lower(): value for key, value in args.items()}
    camel = {key[0].lower() + key[1:]: value for key, value in args.items()}
    assert _scores(client, lower) == _scores(client, camel) == _scores(client, args)
    names = {"pod": args["Pod"], "nodenames": ["n1", "n2"]}
    answer = client.post(f"{PREFIX}/filter", json=names).json()
    assert (answer["Nodes"], answer["NodeNames"]) == (None, ["n1", "n2"])


def test_filter_mirrors_nodes(client: TestClient) -> None:
    args = extender_args(pod(job_text()), [node("n1", H100)])
    response = client.post(f"{PREFIX}/filter", json=args)
    kept = json.dumps(args["Nodes"], separators=(",", ":")).encode()
    assert response.content == (
        b'{"Nodes":' + kept + b',"NodeNames":null,"FailedNodes":{},'
        b'"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def test_filter_mirrors_names(client: TestClient) -> None:
    args = extender_args(pod(job_text()), None, ["n1", "n2"])
    response = client.post(f"{PREFIX}/filter", json=args)
    assert response.content == (
        b'{"Nodes":null,"NodeNames":["n1","n2"],"FailedNodes":{},'
        b'"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def test_filter_leaves_out_what_has_not_the_memory(client: TestClient) -> None:
    answer = client.post(
        f"{PREFIX}/filter", json=extender_args(pod(job_text("timm/wide", batch_size=8)), NODES)
    ).json()
    kept = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    assert kept == ["n1", "n3", "cpu-1"]
    assert list(answer["FailedNodes"]) == ["n2"]
    # 2**20 x 5000 weights of 4 bytes are 19.5 GiB; what surrounds them comes on top.
    found = re.fullmatch(r"predicted OOM (\d+)/(\d+) GiB", answer["FailedNodes"]["n2"])
    assert found is not None
    assert int(found[1]) >= 19
    assert int(found[2]) in (15, 16)
    # No preemption makes a card larger.
    assert answer["FailedAndUnresolvableNodes"] == answer["FailedNodes"]
    assert answer["Error"] == ""


def test_filter_says_what_was_observed_to_run_out(client: TestClient) -> None:
    job = {"job_type": "click-rates", "mode": "training", "batch_size": 64}
    seen = {"job": job, "placement": "T4", "out_of_memory": True}
    assert client.post("/v1/observations", json=[seen]).json()["accepted"] == 1
    asked = extender_args(pod(json.dumps(job)), NODES)
    answer = client.post(f"{PREFIX}/filter", json=asked).json()
    assert answer["FailedNodes"] == {"n2": "observed OOM on 16 GiB"}
    client.delete("/v1/observations?reporter=guest")


def test_filter_by_names_leaves_out_the_same(client: TestClient) -> None:
    client.post(f"{PREFIX}/prioritize", json=extender_args(pod(), NODES))
    args = extender_args(pod(job_text("timm/wide", batch_size=8)), None, ["n1", "n2"])
    answer = client.post(f"{PREFIX}/filter", json=args).json()
    assert (answer["Nodes"], answer["NodeNames"]) == (None, ["n1"])
    assert list(answer["FailedNodes"]) == ["n2"]


def test_a_job_that_does_not_fit_scores_nothing(client: TestClient) -> None:
    scores = _scores(client, extender_args(pod(job_text("timm/wide", batch_size=8)), NODES))
    assert (scores["n1"], scores["n2"]) == (10, 0)


def test_a_pod_may_forbid_to_be_kept_from_nodes(client: TestClient) -> None:
    a_pod = pod(job_text("timm/wide", batch_size=8), annotations={"perfmodel/exclude": "never"})
    answer = client.post(f"{PREFIX}/filter", json=extender_args(a_pod, NODES)).json()
    assert len(answer["Nodes"]["items"]) == len(NODES)
    assert answer["FailedNodes"] == {}
    assert _scores(client, extender_args(a_pod, NODES))["n2"] > 0


UNANSWERABLE = {
    "no annotation": pod(),
    "unknown model": pod(job_text("timm/nothing")),
    "not JSON": pod("{"),
    "no object": pod("[]"),
    "unknown field": pod('{"modle":"timm/resnet50"}'),
    "unknown reference": pod(annotations={"perfmodel/job-ref": "nobody-knows"}),
    "no accelerator": pod(job_text(), gpus=0),
    "empty pod": {},
    "odd pod": {"metadata": 3, "spec": {"containers": [None, {"resources": "all"}]}},
}


@pytest.mark.parametrize("a_pod", UNANSWERABLE.values(), ids=UNANSWERABLE.keys())
def test_what_cannot_be_answered_changes_nothing(client: TestClient, a_pod: dict[str, Any]) -> None:
    assert set(_scores(client, extender_args(a_pod, NODES)).values()) == {5}
    answer = client.post(f"{PREFIX}/filter", json=extender_args(a_pod, NODES)).json()
    assert len(answer["Nodes"]["items"]) == len(NODES)
    assert (answer["FailedNodes"], answer["Error"]) == ({}, "")


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize(
    ("lacking", "pointer"),
    [
        ({"Pod": None, "Nodes": None}, "/Pod"),
        ({"Nodes": None}, "/Nodes"),
        ({"Nodes": [node("n1", H100)]}, "/Nodes"),
        ({"NodeNames": "n1"}, "/NodeNames"),
        ({"NodeNames": ["n1", 2]}, "/NodeNames"),
    ],
)
def test_a_request_that_is_none_is_not_answered_as_if_nothing_fitted(
    client: TestClient, verb: str, lacking: dict[str, Any], pointer: str
) -> None:
    args = {**extender_args(pod(job_text()), NODES), **lacking}
    response = client.post(f"{PREFIX}/{verb}", json=args)
    assert response.status_code == 422
    assert [one["pointer"] for one in response.json()["errors"]] == [pointer]


def test_a_defect_changes_nothing(
    client: TestClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(answerer, "fill", broken)
    a_pod = pod(job_text(batch_size=77))
    assert set(_scores(client, extender_args(a_pod, NODES)).values()) == {5}
    monkeypatch.setattr(app.state.kubernetes, "_judge", broken)
    answer = client.post(f"{PREFIX}/filter", json=extender_args(a_pod, NODES)).json()
    assert len(answer["Nodes"]["items"]) == len(NODES)


def test_a_new_job_holds_nobody_up(client: TestClient, app: FastAPI, captures: Any) -> None:
    cluster = app.state.kubernetes
    settings = cluster.settings
    cluster.settings = settings.model_copy(update={"kubernetes_wait_s": 0.05})
    args = extender_args(pod(job_text("timm/slow")), NODES)
    try:
        # Answered although the capture goes on until it is let go.
        assert set(_scores(client, args).values()) == {5}
        captures.go_on.set()
        cluster.settings = settings
        # The first call went on in the background: the job was captured once.
        assert _scores(client, args)["n1"] == 10
        assert captures.asked.count("timm/slow") == 1
    finally:
        cluster.settings = settings


def test_what_is_refused_is_not_asked_again_at_once(
    client: TestClient, app: FastAPI, captures: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(app.state.kubernetes.rates, "_clock", lambda: now[0])
    args = extender_args(pod(job_text("timm/nowhere")), NODES)
    for _ in range(3):
        _scores(client, args)
    now[0] += 0.9 * RETRY_S
    _scores(client, args)
    assert captures.asked.count("timm/nowhere") == 1


def test_no_candidates_get_an_empty_answer(client: TestClient) -> None:
    for args in (extender_args(pod(job_text()), [], None), extender_args(pod(), None, [])):
        assert client.post(f"{PREFIX}/prioritize", json=args).content == b"[]"


def test_garbage_is_the_sender_s_mistake(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    for verb in ("prioritize", "filter"):
        assert client.post(f"{PREFIX}/{verb}", content=b"{", headers=headers).status_code == 400
        assert client.post(f"{PREFIX}/{verb}", json=[1]).status_code == 422


def test_a_registered_job_is_found_by_its_reference(client: TestClient) -> None:
    registered = client.post("/v1/jobs", json={"job": json.loads(job_text(batch_size=31))})
    assert registered.status_code in (200, 201), registered.text
    a_pod = pod(annotations={"perfmodel/job-ref": registered.json()["ref"]})
    expected = _scores(client, extender_args(pod(job_text(batch_size=31)), NODES))
    assert _scores(client, extender_args(a_pod, NODES)) == expected
    assert expected["n1"] == 10


def test_pods_of_one_group_share_the_job_of_the_one_that_says_it(client: TestClient) -> None:
    labels = {"training.kubeflow.org/job-name": "bert"}
    worker = pod(labels=labels)
    assert set(_scores(client, extender_args(worker, NODES)).values()) == {5}
    master = _scores(client, extender_args(pod(job_text(), labels=labels), NODES))
    assert _scores(client, extender_args(worker, NODES)) == master
    other = pod(labels={"training.kubeflow.org/job-name": "another"})
    assert set(_scores(client, extender_args(other, NODES)).values()) == {5}


def test_more_accelerators_of_a_node_are_asked_for_as_such(client: TestClient) -> None:
    nodes = [node("n1", H100), node("n2", A100)]
    scores = _scores(client, extender_args(pod(job_text(), gpus=8), nodes))
    assert scores["n1"] >= scores["n2"] > 0


def _cell(rate: float, fits: bool) -> Cell:
    return Cell(
        samples_per_second=rate, fits=fits, peak_bytes=1.0, capacity_bytes=2.0, basis="measured"
    )


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e9), st.booleans()) | st.none(), min_size=1, max_size=30)
)
def test_scores_rise_with_predicted_throughput(drawn: list[tuple[float, bool] | None]) -> None:
    cells = [None if item is None else _cell(*item) for item in drawn]
    names = [f"n{i}" for i in range(len(cells))]
    args = Args(pod=Pod(job=JobName(), request=None), names=names, nodes=None)
    scores = [item["Score"] for item in host_priorities(args, cells)]
    known = [(c, s) for c, s in zip(cells, scores, strict=True) if c is not None]
    assert all(type(score) is int and 0 <= score <= 10 for score in scores)
    for one, one_score in known:
        assert (one_score == 0) == (not one.fits)
        for other, other_score in known:
            if one.fits and other.fits and one.samples_per_second <= other.samples_per_second:
                assert one_score <= other_score
    if any(cell.fits for cell, _ in known):
        assert max(scores) == 10
