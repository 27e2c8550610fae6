"""The configuration files under ``examples/kubernetes`` name what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cluster_bodies import H100, extender_args, node
from fastapi import FastAPI
from fastapi.testclient import TestClient

from perfmodel.graph.job_form import parse_job
from service.settings import Settings

yaml = pytest.importorskip("yaml", reason="PyYAML reads the example files")

FOLDER = Path(__file__).resolve().parents[4] / "examples" / "kubernetes"


def _documents(name: str) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all((FOLDER / name).read_text()) if item]


def _posts(app: FastAPI) -> set[str]:
    return {path for path, methods in app.openapi()["paths"].items() if "post" in methods}


def test_the_scheduler_s_verbs_are_routes(app: FastAPI) -> None:
    (configuration,) = _documents("scheduler.yaml")
    (extender,) = configuration["extenders"]
    prefix = urlsplit(extender["urlPrefix"]).path
    assert f"{prefix}/{extender['prioritizeVerb']}" in _posts(app)
    assert f"{prefix}/filter" in _posts(app)  # the line to be taken in later
    assert extender["ignorable"] is True
    assert extender["nodeCacheCapable"] is True
    # Fields of KubeSchedulerConfiguration v1; another would keep the scheduler from starting.
    known = {
        "urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb", "weight",
        "enableHTTPS", "tlsConfig", "httpTimeout", "nodeCacheCapable", "managedResources",
        "ignorable",
    }  # fmt: skip
    assert extender.keys() <= known


def test_volcano_s_verbs_are_routes(app: FastAPI) -> None:
    (configmap,) = _documents("volcano.yaml")
    conf = yaml.safe_load(configmap["data"]["volcano-scheduler.conf"])
    plugins = [plugin for tier in conf["tiers"] for plugin in tier["plugins"]]
    (arguments,) = (p["arguments"] for p in plugins if p["name"] == "extender")
    prefix = urlsplit(arguments["extender.urlPrefix"]).path
    verbs = [value for name, value in arguments.items() if name.endswith("Verb")]
    assert {f"{prefix}/{verb}" for verb in verbs} <= _posts(app)
    assert "prioritize" in verbs
    assert "predicate" not in verbs  # one call for each task and node
    assert arguments["extender.ignorable"] is True


def test_the_webhook_calls_a_route_and_lets_everything_pass_without_it(app: FastAPI) -> None:
    (configuration,) = _documents("webhook.yaml")
    (webhook,) = configuration["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] in _posts(app)
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["admissionReviewVersions"] == ["v1"]
    longest_wait_s = Settings.model_fields["kubernetes_admission_wait_s"].default
    assert longest_wait_s < webhook["timeoutSeconds"] <= 10
    assert {op for rule in webhook["rules"] for op in rule["operations"]} == {"CREATE"}


def test_the_deployment_names_services_settings_and_probes_that_exist(app: FastAPI) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for document in _documents("deployment.yaml"):
        by_kind.setdefault(document["kind"], []).append(document)
    ports = {
        f"{s['metadata']['name']}.{s['metadata']['namespace']}.svc": s["spec"]["ports"][0]["port"]
        for s in by_kind["Service"]
    }
    for name in ("scheduler.yaml", "volcano.yaml"):
        found = _url(FOLDER / name)
        assert ports[str(found.hostname)] == found.port
    (webhook,) = _documents("webhook.yaml")[0]["webhooks"]
    service = webhook["clientConfig"]["service"]
    host = f"{service['name']}.{service['namespace']}.svc"
    assert ports[host] == service["port"]
    assert by_kind["Certificate"][0]["spec"]["dnsNames"] == [host]
    (deployment,) = by_kind["Deployment"]
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        for variable in container["env"]:
            setting = variable["name"].removeprefix("PERFMODEL_").lower()
            assert setting in Settings.model_fields
        assert container["readinessProbe"]["httpGet"]["path"] in app.openapi()["paths"]


def _url(path: Path) -> Any:
    (line,) = (
        line for line in path.read_text().splitlines()
        if "urlPrefix:" in line and not line.strip().startswith("#")
    )  # fmt: skip
    return urlsplit(line.split("urlPrefix:")[1].strip())


def test_the_job_is_one_that_is_scored(client: TestClient) -> None:
    (job,) = _documents("job.yaml")
    template = job["spec"]["template"]
    text = template["metadata"]["annotations"]["perfmodel/job"]
    assert job["metadata"]["annotations"]["perfmodel/job"] == text
    parse_job(json.loads(text))
    args = extender_args(template, [node("n1", H100)])
    scores = client.post("/kubernetes/scheduler/prioritize", json=args).json()
    assert scores == [{"Host": "n1", "Score": 10}]
