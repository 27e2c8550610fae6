"""The Helm chart as Helm renders it and as Kubernetes would read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from perfmodel.cli.running.settings_file import read_settings_into
from service.settings import Settings

helm = pytest.importorskip("helm_python", reason="Helm is not installed: make deploy-check")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "perfmodel"
#: Kinds that an operator brings; Kubernetes itself does not know them.
_CUSTOM = {"ServiceMonitor"}
MANY = {
    "database": {"existingSecret": "perfmodel-database"},
    "keys": {"existingSecret": "perfmodel-keys"},
    "autoscaling": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
    "serviceMonitor": {"enabled": True, "existingSecret": "perfmodel-metrics"},
    "serviceAccount": {"readNodes": True},
    "extraEnv": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "podLabels": {"team": "ml"},
    "podAnnotations": {"note": "yes"},
    "settings": {
        "rate_per_s": 50,
        "max_cells": 5_000_000,
        "hosts": ["perfmodel.example"],
        "kubernetes_nodes": "cluster",
        "kubernetes_accelerators": {"odd": "T4"},
    },
}
SINGLE: dict[str, Any] = {}


@pytest.fixture(scope="module")
def chart() -> Iterator[Any]:
    with helm.Chart.load(CHART) as loaded:
        yield loaded


def _rendered(chart: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the objects of a release by their kind."""
    texts = chart.render(values=values, name="demo", namespace="ml")
    objects = [
        one
        for name, text in texts.items()
        if not name.endswith(".txt")
        for one in yaml.safe_load_all(text)
        if one
    ]
    return {one["kind"]: one for one in objects}


def _pod(objects: dict[str, Any]) -> Any:
    workload = objects.get("Deployment") or objects["StatefulSet"]
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("values", [SINGLE, MANY], ids=["single", "many"])
def test_kubernetes_reads_what_is_rendered(chart: Any, values: dict[str, Any]) -> None:
    chart.validate_schema(values)
    report = helm.lint(CHART, values, strict=True)
    assert not report["errors"]
    for kind, one in _rendered(chart, values).items():
        if kind not in _CUSTOM:
            kubernetes_validate.validate(one, "1.35", strict=True)


def test_kinds(chart: Any) -> None:
    assert set(_rendered(chart, SINGLE)) == {
        "StatefulSet",
        "Service",
        "ConfigMap",
        "ServiceAccount",
    }
    assert set(_rendered(chart, MANY)) == {
        "Deployment", "Service", "ConfigMap", "ServiceAccount", "ClusterRole", "ClusterRoleBinding",
        "Ingress", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ServiceMonitor",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas": 2}, "needs a PostgreSQL"),
        ({"autoscaling": {"enabled": True}}, "needs a PostgreSQL"),
        ({"serviceMonitor": {"enabled": True}}, "scope observe"),
        ({"replica": 2}, "replica"),
        ({"settings": {"database": "sqlite:///x"}}, "database"),
        ({"settings": {"Rate": 1}}, "Rate"),
    ],
)
def test_values_that_cannot_be_meant(chart: Any, values: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        chart.validate_schema(values)
        chart.render(values=values)


def test_the_service_reads_its_settings(
    chart: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = _rendered(chart, MANY)
    file = tmp_path / "settings.toml"
    file.write_text(objects["ConfigMap"]["data"]["settings.toml"])
    environment: dict[str, str] = {}
    read_settings_into(environment, file)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.rate_per_s == 50
    assert settings.max_cells == 5_000_000
    assert settings.hosts == ("perfmodel.example",)
    assert settings.kubernetes_accelerators == {"odd": "T4"}
    assert (settings.workers, settings.drain_s) == (1, 10)


@pytest.mark.parametrize("values", [SINGLE, MANY], ids=["single", "many"])
def test_pods_are_as_the_image_is(chart: Any, values: dict[str, Any]) -> None:
    pod = _pod(_rendered(chart, values))
    (container,) = pod["containers"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    exposed = re.search(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)
    assert exposed is not None
    assert [str(port["containerPort"]) for port in container["ports"]] == exposed.group(1).split()
    assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "health"
    # Every mounted volume is there, and each that is there is mounted.
    claims = _rendered(chart, values).get("StatefulSet", {}).get("spec", {})
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in claims.get("volumeClaimTemplates", ())}
    assert volumes == {mount["name"] for mount in container["volumeMounts"]}
    # Drained before it is killed.
    assert pod["terminationGracePeriodSeconds"] > 2 * 10


def test_selectors_find_the_pods(chart: Any) -> None:
    objects = _rendered(chart, MANY)
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind, path in (
        ("Deployment", ("selector", "matchLabels")),
        ("Service", ("selector",)),
        ("PodDisruptionBudget", ("selector", "matchLabels")),
        ("ServiceMonitor", ("selector", "matchLabels")),
    ):
        wanted = objects[kind]["spec"]
        for step in path:
            wanted = wanted[step]
        target = labels if kind != "ServiceMonitor" else objects["Service"]["metadata"]["labels"]
        assert wanted.items() <= target.items(), kind


def test_notes_say_how_a_key_is_made(chart: Any) -> None:
    (notes,) = [
        text
        for name, text in chart.render(values={}, name="demo").items()
        if name.endswith("NOTES.txt")
    ]
    assert "perfmodel keys create" in notes
