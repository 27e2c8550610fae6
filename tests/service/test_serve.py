"""The service as a process: ready, answering, ending."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from fastapi.testclient import TestClient
from service_process import service_process
from starlette.routing import Route
from waiting import PATIENCE_S

from perfmodel.cli import cli
from perfmodel.errors import InvalidInputError
from perfmodel.predictors.serving.own_process import prepare_process
from service import serve as serving
from service.http.connections import check_free
from service.serve import loading, serve
from service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]

_IMPORTED = """
import sys
from perfmodel.predictors.serving.own_process import prepare_process
import service.serve
assert not {"torch", "xgboost"} & set(sys.modules)
prepare_process()
assert "sklearn" not in sys.modules
import xgboost
assert xgboost.Booster().get_fscore is not None
"""


def test_it_gets_ready_and_ends_cleanly(tmp_path: Path) -> None:
    models = str(tmp_path / "models")
    with service_process(f"sqlite:///{tmp_path}/a.db", tmp_path, models=models) as (process, here):
        assert here.ask("/v2/health/ready") == {"status": "ready", "detail": []}
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_applications_build_no_route_anew(app: FastAPI, shared: TestClient) -> None:
    of_another = {id(route) for route in cast(FastAPI, shared.app).routes}
    included = [route for route in app.routes if not isinstance(route, Route)]
    assert included
    assert all(id(route) in of_another for route in included)


def test_starting_loads_no_torch_and_the_boosting_library_comes_alone() -> None:
    pytest.importorskip("xgboost")
    # In a process of its own: in this one all may have been imported long ago.
    subprocess.run([sys.executable, "-c", _IMPORTED], check=True, timeout=300)


def test_what_it_cannot_do_is_said_at_the_start(tmp_path: Path) -> None:
    program = """
import sys

sys.modules["torch"] = None
from service.http.connections import check_free
from service.serve import app_of_worker

app_of_worker()
"""
    settings = {
        "PERFMODEL_DATABASE": f"sqlite:///{tmp_path}/a.db",
        "PERFMODEL_MODELS": str(tmp_path),
        "PERFMODEL_DATA": str(tmp_path / "tables"),
        "PERFMODEL_RETRAINING_PROFILES": f"{tmp_path}:{tmp_path}/profils",
    }
    told = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **settings},
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    warnings = [line for line in told.stderr.splitlines() if '"level":"warning"' in line]
    for said in (
        "PyTorch is not installed",
        "No trained model is in PERFMODEL_MODELS",
        f"PERFMODEL_DATA is '{tmp_path}/tables', which is no folder",
        f"PERFMODEL_RETRAINING_PROFILES is '{tmp_path}/profils', which is no folder",
    ):
        assert any(said in line for line in warnings)


def test_a_port_for_health_that_somebody_has_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name in ("MODELS", "DATABASE"):  # which serve() sets
            monkeypatch.setenv(f"PERFMODEL_{name}", "")
        monkeypatch.setenv("PERFMODEL_HEALTH_PORT", str(port))
        with pytest.raises(InvalidInputError, match=f"127.0.0.1:{port}: .*PERFMODEL_HEALTH_PORT"):
            serve(port=0, models=tmp_path, database=f"sqlite:///{tmp_path}/a.db")


def test_a_host_that_is_none_of_this_machine_is_told_apart_from_a_port_that_is_taken() -> None:
    hints = {"hint": "another port", "host_hint": "another host"}
    for host in ("host.invalid", "192.0.2.1"):
        with pytest.raises(InvalidInputError, match=f"{host}:0: .*another host"):
            check_free(host, 0, **hints)


def test_what_was_imported_before_stays() -> None:
    before = sys.modules.get("sklearn"), sys.modules.get("xgboost")
    if before == (None, None):
        pytest.skip("neither was imported in this process yet")
    prepare_process()
    assert (sys.modules.get("sklearn"), sys.modules.get("xgboost")) == before


def test_nothing_is_collected_while_it_loads() -> None:
    thresholds = gc.get_threshold()
    try:
        with loading():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
        with pytest.raises(ZeroDivisionError), loading():
            _ = 1 // 0
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_the_age_of_observations_is_an_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ages: list[float] = []

    class Server:
        def __init__(self, config: object, on_ready: object) -> None:
            pass

        def run(self) -> None:
            ages.append(Settings().observations_keep_s)

    monkeypatch.setattr(serving, "_Server", Server)
    for name in ("PERFMODEL_OBSERVATIONS_KEEP_S", "PERFMODEL_DATABASE", "PERFMODEL_MODELS"):
        # So that what the command sets is taken back in the end.
        monkeypatch.setenv(name, "0")
        monkeypatch.delenv(name)
    command = ["serve", "--port", "0", "--database", str(tmp_path / "state.db")]
    for options, environment in (
        ([], {}),
        (["--observations-keep-s", "60"], {}),
        ([], {"PERFMODEL_OBSERVATIONS_KEEP_S": "3600"}),
    ):
        result = CliRunner(env=environment).invoke(cli, [*command, *options])
        assert result.exit_code == 0, result.output
        monkeypatch.delenv("PERFMODEL_OBSERVATIONS_KEEP_S", raising=False)
    assert ages == [0.0, 60.0, 3600.0]
