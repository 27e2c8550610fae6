"""The admission webhook: AdmissionReview v1 in, JSON patch out."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cluster_bodies import A100, H100, T4, extender_args, job_text, node, pod
from fastapi import FastAPI
from fastapi.testclient import TestClient
from json_patch import apply

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
KEY = "nvidia.com/gpu.product"


@pytest.fixture(scope="module", autouse=True)
def _nodes(client: TestClient) -> None:
    """Let the service see the nodes of a cluster."""
    nodes = [node("n1", H100), node("n2", T4), node("n3", H100), node("n4", A100), node("c1", None)]
    client.post("/kubernetes/scheduler/prioritize", json=extender_args(pod(), nodes))


def review(item: dict[str, Any], operation: str = "CREATE") -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": item.get("kind", "Pod")},
            "operation": operation,
            "namespace": "team-a",
            "userInfo": {"username": "ada"},
            "object": item,
            "oldObject": None,
            "dryRun": False,
        },
    }


def _patched(client: TestClient, item: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/kubernetes/admission/mutate", json=review(item))
    assert response.status_code == 200
    answer = response.json()["response"]
    assert answer["allowed"] is True
    if "patch" not in answer:
        return item
    assert answer["patchType"] == "JSONPatch"
    return apply(item, json.loads(base64.b64decode(answer["patch"], validate=True)))


def _unchanged(client: TestClient, item: dict[str, Any], operation: str = "CREATE") -> bool:
    response = client.post("/kubernetes/admission/mutate", json=review(item, operation))
    return response.content == (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
        b'"response":{"uid":"' + UID.encode() + b'","allowed":true}}'
    )


def _weights(spec: dict[str, Any]) -> dict[str, int]:
    weights = {}
    for term in spec["affinity"]["nodeAffinity"][PREFERRED]:
        (expression,) = term["preference"]["matchExpressions"]
        assert (expression["key"], expression["operator"]) == (KEY, "In")
        weights.update(dict.fromkeys(expression["values"], term["weight"]))
    return weights


def _rate(client: TestClient, placement: str) -> float:
    job = json.loads(job_text())
    answer = client.post("/v1/predict", json={"job": job, "placement": placement}).json()
    rate: float = answer["throughput"]["samples_per_second"]
    return rate


def test_the_answer_is_an_admission_review(client: TestClient) -> None:
    answer = client.post("/kubernetes/admission/mutate", json=review(pod(job_text()))).json()
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == UID
    assert answer["response"].keys() == {"uid", "allowed", "patchType", "patch"}


def test_weights_are_relative_throughputs(client: TestClient) -> None:
    weights = _weights(_patched(client, pod(job_text()))["spec"])
    best = _rate(client, "H100-SXM5-80GB")
    assert weights == {
        H100: 100,
        A100: max(1, round(100 * _rate(client, "A100-SXM4-80GB") / best)),
        T4: max(1, round(100 * _rate(client, "T4") / best)),
    }
    assert all(type(w) is int and 1 <= w <= 100 for w in weights.values())


def test_people_are_told_no_throughput_of_a_job_that_nobody_knows(client: TestClient) -> None:
    known = _patched(client, pod(job_text()))["metadata"]["annotations"]["perfmodel/predicted"]
    assert f"{H100}: " in known and known.count("samples/s") == 3
    unknown = json.dumps({"job_type": "unheard of", "mode": "training", "batch_size": 8})
    told = _patched(client, pod(unknown))["metadata"]["annotations"]["perfmodel/predicted"]
    assert told.startswith(f"{H100}: 100% of the best, as jobs in general; ")
    assert "samples/s" not in told


def test_what_has_not_the_memory_is_excluded(client: TestClient) -> None:
    patched = _patched(client, pod(job_text("timm/wide", batch_size=8)))
    affinity = patched["spec"]["affinity"]["nodeAffinity"]
    excluded = {"key": KEY, "operator": "NotIn", "values": [T4]}
    assert affinity[REQUIRED] == {"nodeSelectorTerms": [{"matchExpressions": [excluded]}]}
    assert T4 not in _weights(patched["spec"])
    said = patched["metadata"]["annotations"]["perfmodel/predicted"]
    assert f"{T4}: predicted OOM" in said
    assert said.startswith(f"{H100}: ")


def test_a_pod_may_forbid_exclusion(client: TestClient) -> None:
    a_pod = pod(job_text("timm/wide", batch_size=8), annotations={"perfmodel/exclude": "never"})
    spec = _patched(client, a_pod)["spec"]
    assert REQUIRED not in spec["affinity"]["nodeAffinity"]
    assert T4 in _weights(spec)


def test_where_nothing_fits_nothing_is_excluded_but_it_is_said(client: TestClient) -> None:
    # 2**17 rows of 2**20 inputs of 4 bytes are 512 GiB.
    item = pod(job_text("timm/wide", batch_size=2**17))
    answer = client.post("/kubernetes/admission/mutate", json=review(item)).json()["response"]
    assert answer["allowed"] is True
    (warning,) = answer["warnings"]
    assert warning.startswith("perfmodel: this job may fit on no accelerator here")
    assert "affinity" not in _patched(client, item)["spec"]


def test_what_the_owner_has_set_stays(client: TestClient) -> None:
    item = pod(job_text("timm/wide", batch_size=8))
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    disk = {"key": "disk", "operator": "Exists"}
    mine = {"weight": 7, "preference": {"matchExpressions": [disk]}}
    spread = {"requiredDuringSchedulingIgnoredDuringExecution": []}
    item["spec"]["affinity"] = {
        "podAntiAffinity": spread,
        "nodeAffinity": {
            PREFERRED: [mine],
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [zone]},
                    {"matchFields": [{"key": "metadata.name"}]},
                ]
            },
        },
    }
    affinity = _patched(client, item)["spec"]["affinity"]
    assert affinity["podAntiAffinity"] == spread
    assert affinity["nodeAffinity"][PREFERRED][0] == mine
    first, second = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    # Terms are alternatives, so what is excluded must be in each of them.
    assert [e["operator"] for e in first["matchExpressions"]] == ["In", "NotIn"]
    assert second["matchFields"] == [{"key": "metadata.name"}]
    assert [e["operator"] for e in second["matchExpressions"]] == ["NotIn"]


def test_what_was_patched_is_not_patched_again(client: TestClient) -> None:
    assert _unchanged(client, _patched(client, pod(job_text())))


@pytest.mark.parametrize(
    "path",
    [
        ("template",),
        ("pytorchReplicaSpecs", "Worker", "template"),
        ("rayClusterSpec", "headGroupSpec", "template"),
    ],
)
def test_templates_inside_any_kind_are_patched(client: TestClient, path: tuple[str, ...]) -> None:
    item: dict[str, Any] = {"kind": "Some", "metadata": {"name": "j"}, "spec": {}}
    at = item["spec"]
    for name in path[:-1]:
        at = at.setdefault(name, {})
    at[path[-1]] = {"spec": pod()["spec"]}
    item["metadata"]["annotations"] = {"perfmodel/job": job_text()}
    at = _patched(client, item)["spec"]
    for name in path:
        at = at[name]
    assert _weights(at["spec"])[H100] == 100
    # Its pods will carry the job too, for the scheduler.
    assert at["metadata"]["annotations"]["perfmodel/job"] == job_text()


def test_a_list_of_tasks_is_patched_in_each(client: TestClient) -> None:
    template = {"metadata": {}, "spec": pod()["spec"]}
    item = {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": {"annotations": {"perfmodel/job": job_text()}},
        "spec": {"tasks": [{"template": template}, {"template": template}]},
    }
    tasks = _patched(client, item)["spec"]["tasks"]
    assert [_weights(t["template"]["spec"])[H100] for t in tasks] == [100, 100]


@pytest.mark.parametrize(
    "item",
    [
        pod(),
        pod(job_text("timm/nothing")),
        pod(job_text(), gpus=0),
        pod(annotations={"perfmodel/job-ref": "nobody-knows"}),
        {"kind": "ConfigMap", "data": {}},
        {},
        {"spec": {"template": 3}},
    ],
    ids=["no job", "no model", "no GPU", "no ref", "ConfigMap", "empty", "odd"],
)
def test_what_cannot_be_answered_passes_as_it_is(client: TestClient, item: dict[str, Any]) -> None:
    assert _unchanged(client, item)


def test_what_exists_is_left_alone(client: TestClient) -> None:
    assert _unchanged(client, pod(job_text()), operation="UPDATE")


def test_a_defect_admits_the_object_as_it_is(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("service.adapters.kubernetes.webhook.rank", broken)
    assert _unchanged(client, pod(job_text()))


def test_garbage_is_the_sender_s_mistake(client: TestClient) -> None:
    for body in ([], {}, {"request": {}}, {"request": {"uid": 3}}):
        assert client.post("/kubernetes/admission/mutate", json=body).status_code == 422


# Kueue --------------------------------------------------------------------------------------

ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"


def _flavor(name: str, product: str | None) -> dict[str, Any]:
    labels = {} if product is None else {KEY: product}
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": labels}}


@pytest.fixture
def _flavors(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [_flavor("h100", H100), _flavor("t4", T4), _flavor("a100", A100), _flavor("any", None)]
    nodes = app.state.kubernetes.nodes
    monkeypatch.setattr(nodes, "_flavors", {})
    monkeypatch.setattr(nodes, "_nodes", dict(nodes._nodes))
    nodes._replace([*listed, node("n1", H100), node("n2", T4), node("n4", A100)])


def workload(job: str, **annotations: str) -> dict[str, Any]:
    template = {"metadata": {"annotations": {"perfmodel/job": job}}, "spec": pod()["spec"]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w", "annotations": annotations},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 2, "template": template}]},
    }


@pytest.mark.usefixtures("_flavors")
def test_flavours_without_the_memory_are_left_out(client: TestClient) -> None:
    item = workload(job_text("timm/wide", batch_size=8))
    patched = _patched(client, item)
    assert patched["metadata"]["annotations"] == {ALLOWED: "h100,a100,any"}
    # Kueue compares the sets of pods with the job's; they are not touched.
    assert patched["spec"] == item["spec"]


@pytest.mark.usefixtures("_flavors")
def test_flavours_below_the_share_asked_for_are_left_out(client: TestClient) -> None:
    share = _rate(client, "A100-SXM4-80GB") / _rate(client, "H100-SXM5-80GB")
    above = {"perfmodel/least-throughput-share": f"{(1 + share) / 2:.4f}"}
    patched = _patched(client, workload(job_text(), **above))
    assert patched["metadata"]["annotations"][ALLOWED] == "h100,any"


@pytest.mark.usefixtures("_flavors")
def test_a_workload_that_fits_everywhere_is_left_alone(client: TestClient) -> None:
    assert _unchanged(client, workload(job_text()))


@pytest.mark.usefixtures("_flavors")
def test_flavours_that_were_chosen_already_stay(client: TestClient) -> None:
    assert _unchanged(client, workload(job_text("timm/wide", batch_size=8), **{ALLOWED: "t4"}))


def _warnings(client: TestClient, item: dict[str, Any]) -> list[str]:
    response = client.post("/kubernetes/admission/mutate", json=review(item)).json()["response"]
    assert response["allowed"] is True
    found: list[str] = response.get("warnings", [])
    return found


@pytest.mark.usefixtures("_flavors")
@pytest.mark.parametrize("share", ["25%", "2", "-1", "nan", ""])
def test_a_share_that_cannot_be_read_is_said(client: TestClient, share: str) -> None:
    [warning] = _warnings(
        client, workload(job_text(), **{"perfmodel/least-throughput-share": share})
    )
    assert "perfmodel/least-throughput-share is left out" in warning and "0 to 1" in warning


@pytest.mark.usefixtures("_flavors")
def test_a_job_that_cannot_be_read_is_said(client: TestClient) -> None:
    for text in ("{", "[1]", '{"model": "timm/small", "mode": "training", "batch_size": -1}'):
        for item in (workload(text), pod(text)):
            assert _patched(client, item) == item
            [warning] = _warnings(client, item)
            assert warning.startswith("perfmodel: the annotation perfmodel/job is left out. ")
    assert _warnings(client, workload(job_text())) == []
