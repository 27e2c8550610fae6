"""What Prometheus and Grafana are told to read is what a running service counts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from guarded_service import make_app
from running import running
from waiting import PATIENCE_S

from service.metrics.registry import Metrics

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "perfmodel.json"
#: Labels that Prometheus itself adds, or histograms have.
_ADDED = {"instance", "job", "le"}


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in _rules()},
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in _panels()
        for target in panel["targets"]
    },
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """Return the names of all that a running service counts."""
    folder = tmp_path_factory.mktemp("counted")
    app = make_app(folder, models=folder / "models")
    with running(app) as url, urlopen(f"{url}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    yield set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


def _documented() -> dict[str, set[str]]:
    """Return metrics with their labels, as the page lists them."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    rows = re.findall(r"^\| `(perfmodel_\w+)` \|([^|]*)\|", page, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def _metrics(expression: str) -> set[str]:
    """Return the metrics that an expression names; of a histogram without its suffix."""
    names = re.findall(r"\bperfmodel_\w+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def _labels(expression: str) -> set[str]:
    """Return the labels that an expression names: in braces, and those it groups by."""
    inside = re.findall(r"(\w+)(?:=~|!=|!~|=)\"", expression)
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    return {*inside, *(name.strip() for group in grouped for name in group.split(","))}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_is_read_is_counted(name: str, counted: set[str]) -> None:
    expression = EXPRESSIONS[name]
    assert _metrics(expression) <= counted
    known = set().union(*(_documented()[metric] for metric in _metrics(expression)))
    assert _labels(expression) <= known | _ADDED


def test_the_values_that_are_read_are_counted() -> None:
    metrics = Metrics()
    for predicted in (1.0, 2.0):
        metrics.observation("T4", 1.0, predicted=predicted, low=0.9 * predicted, high=9.0)
    counted = set(re.findall(r'covered="(\w+)"', metrics.exposition().decode()))
    read = "\n".join([*EXPRESSIONS.values(), (PROMETHEUS / "rules-test.yml").read_text()])
    assert set(re.findall(r'covered="(\w+)"', read)) == counted


def test_the_page_lists_what_is_counted(counted: set[str]) -> None:
    own = {name for name in counted if name.startswith("perfmodel_")}
    assert set(_documented()) == {name for name in own if not name.endswith("_created")}


def test_every_metric_is_on_the_dashboard(counted: set[str]) -> None:
    shown = {
        metric
        for panel in _panels()
        for one in panel["targets"]
        for metric in _metrics(one["expr"])
    }
    assert set(_documented()) == shown


def test_panels_lie_beside_one_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in _panels():
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells
    assert len({panel["id"] for panel in _panels()}) == len(_panels())


def test_grafana_is_told_of_both() -> None:
    provisioned = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioned / "datasources/prometheus.yaml").read_text())[
        "datasources"
    ]
    variables = {
        one["name"]: one for one in json.loads(DASHBOARD.read_text())["templating"]["list"]
    }
    assert source["uid"] == variables["datasource"]["current"]["value"]
    compose = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())["services"]
    (provider,) = yaml.safe_load((provisioned / "dashboards/perfmodel.yaml").read_text())[
        "providers"
    ]
    mounted = [volume.split(":")[1] for volume in compose["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted
    assert source["url"] == "http://prometheus:9090"


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


@needs_promtool
def test_prometheus_reads_its_files() -> None:
    for command in (
        ["check", "config", "--syntax-only", "prometheus.yml"],
        ["check", "rules", "rules.yml"],
    ):
        subprocess.run(["promtool", *command], cwd=PROMETHEUS, check=True, timeout=PATIENCE_S)


@needs_promtool
def test_every_alert_fires_and_none_without_a_cause() -> None:
    subprocess.run(
        ["promtool", "test", "rules", "rules-test.yml"],
        cwd=PROMETHEUS,
        check=True,
        timeout=PATIENCE_S,
    )
    tested = (PROMETHEUS / "rules-test.yml").read_text()
    assert {rule["alert"] for rule in _rules()} == set(re.findall(r'alertname="(\w+)"', tested))
