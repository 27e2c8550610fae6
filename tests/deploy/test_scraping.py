"""A real Prometheus with our files, which scrapes a service with keys."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from free_ports import free_port
from guarded_service import CREATED, make_app
from running import running

from service.access.key_file import KeyFile
from service.access.keys import new_key

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
#: Longer than it takes to start and to scrape, however busy the machine is, seconds.
PATIENCE_S = 240.0

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not installed (Debian: prometheus)"
)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run Prometheus beside a service and give its address."""
    folder = tmp_path_factory.mktemp("prometheus")
    token, key = new_key("prometheus", ["observe"], created_at=CREATED)
    KeyFile(folder / "keys.json").add(key)
    (folder / "token").write_text(f"{token}\n")
    with running(make_app(folder, models=folder / "models")) as url:
        shutil.copy(DEPLOY / "prometheus" / "rules.yml", folder)
        config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        for written, here in (
            ("perfmodel:8000", url.removeprefix("http://")),
            ("/run/keys/prometheus", str(folder / "token")),
            ("_interval: 15s", "_interval: 1s"),
        ):
            assert written in config
            config = config.replace(written, here)
        (folder / "prometheus.yml").write_text(config)
        with _started(folder) as address:
            yield address


@contextmanager
def _started(folder: Path) -> Iterator[str]:
    """Run Prometheus on the files of a folder and give its address."""
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}",
            "--log.level=error",
        ]
    )  # fmt: skip
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _asked(address: str, path: str, **fields: str) -> Any:
    with urlopen(f"{address}/api/v1/{path}?{urlencode(fields)}", timeout=PATIENCE_S) as answer:
        return json.load(answer)["data"]


def _until(address: str, query: str, value: str) -> None:
    """Wait until a query has a value."""
    until, found = time.monotonic() + PATIENCE_S, None
    while time.monotonic() < until:
        try:
            found = _asked(address, "query", query=query)["result"]
        except (URLError, OSError):
            found = None
        if found and all(series["value"][1] == value for series in found):
            return
        time.sleep(0.1)
    raise AssertionError(f"{query} is {found}")


def test_the_key_opens_the_metrics(prometheus: str) -> None:
    _until(prometheus, 'up{job="perfmodel"}', "1")
    _until(prometheus, "count(perfmodel_model_created_timestamp_seconds)", "1")


def test_every_rule_is_evaluated(prometheus: str) -> None:
    _until(prometheus, 'up{job="perfmodel"}', "1")
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        (group,) = _asked(prometheus, "rules")["groups"]
        health = {rule["name"]: rule["health"] for rule in group["rules"]}
        if "unknown" not in health.values():
            break
        time.sleep(0.1)
    assert set(health.values()) == {"ok"}, health


def test_every_panel_can_be_asked(prometheus: str) -> None:
    _until(prometheus, 'up{job="perfmodel"}', "1")
    panels = json.loads((DEPLOY / "grafana/dashboards/perfmodel.json").read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"].replace("$instance", ".*")
            assert "$" not in query
            # An error would be a status of 400.
            _asked(prometheus, "query", query=query)
