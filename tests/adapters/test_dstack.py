"""dstack's REST plugin: the wire, and dstack's own client in a venv of its own."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from adapter_world import training
from foreign_venv import python_with
from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("dstack_child.py")

#: An interpreter that has dstack; without it a venv is made.
INTERPRETER = "PERFMODEL_DSTACK_PYTHON"

RUN = {
    "user": "me",
    "project": "main",
    "spec": {
        "run_name": "x",
        "configuration": {
            "type": "task",
            "commands": ["true"],
            "nodes": None,
            "env": {"PERFMODEL_JOB": json.dumps(training("timm/huge"))},
            "resources": {
                "cpu": {"count": {"min": 2, "max": None}},
                "gpu": {
                    "vendor": None,
                    "name": ["P4", "V100-32GB", "A100", "Mystery"],
                    "count": {"min": 1, "max": 1},
                    "memory": None,
                },
            },
        },
    },
}


def apply(url: str, body: Any, kind: str = "run", prefix: str = "") -> tuple[int, Any]:
    response = httpx.post(
        f"{url}/v1/adapters/dstack{prefix}/apply_policies/on_{kind}_apply",
        content=body if isinstance(body, bytes) else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        timeout=PATIENCE_S,
    )
    return response.status_code, response.json()


def changed(**gpu: Any) -> dict[str, Any]:
    run = copy.deepcopy(RUN)
    run["spec"]["configuration"]["resources"]["gpu"].update(gpu)  # type: ignore[index]
    return run


def test_names_that_do_not_fit_go_and_the_fastest_comes_first(service_url: str) -> None:
    status, answer = apply(service_url, RUN)
    assert status == 200 and answer["error"] is None
    # The job fits neither on 8 GB; what nobody knows stays, for it cannot be judged.
    expected = changed(name=["A100", "V100-32GB", "Mystery"])["spec"]
    assert answer["spec"] == expected


def test_candidates_stand_in_for_names(service_url: str) -> None:
    status, answer = apply(service_url, changed(name=None), prefix="/P4,A100")
    assert status == 200
    assert answer["spec"] == changed(name=["A100"])["spec"]
    # What a user names is never widened.
    assert (
        apply(service_url, changed(name=["P4"]), prefix="/A100")[1]["spec"]
        == (changed(name=["P4"])["spec"])
    )


def test_memory_tells_cards_of_one_name_apart(service_url: str) -> None:
    # It needs 20 GB: more than the 16 of what V100 means alone.
    job = {"PERFMODEL_JOB": json.dumps(training("timm/huge", 16384))}

    def left(names: list[str], memory: Any) -> Any:
        run = changed(name=names, memory=memory)
        run["spec"]["configuration"]["env"] = job
        return apply(service_url, run)[1]["spec"]["configuration"]["resources"]["gpu"]["name"]

    for names in (["V100", "A100"], ["A100", "V100"]):
        assert left(names, {"min": 24.0, "max": None}) == ["A100", "V100"]
    # Without, or where no card of that name has so much, it is read as ever.
    for memory in (None, {"min": None, "max": 16.0}, {"min": 500.0, "max": None}):
        assert left(["V100", "A100"], memory) == ["A100"]


def test_a_count_and_a_name_may_stand_alone(service_url: str) -> None:
    for count in (2, {"min": 2, "max": 4}):
        status, answer = apply(service_url, changed(name="A100", count=count))
        assert status == 200
        assert answer["spec"] == changed(name=["A100"], count=count)["spec"]


def unjudged() -> list[dict[str, Any]]:
    runs = [changed(name=None), changed(name=["Mystery"]), changed(name=[3])]
    for env in ({}, [], {"PERFMODEL_JOB": "not registered"}, {"PERFMODEL_JOB": "{"}):
        run = copy.deepcopy(RUN)
        run["spec"]["configuration"]["env"] = env  # type: ignore[index]
        runs.append(run)
    for gpu in ("A100:4", 1.5, ["A100"]):
        run = copy.deepcopy(RUN)
        run["spec"]["configuration"]["resources"]["gpu"] = gpu  # type: ignore[index]
        runs.append(run)
    runs += [changed(name=1.5), changed(name=[f"A100-{n}" for n in range(65)])]
    bare: dict[str, Any] = {"user": "me", "project": "main", "spec": {}}
    strange: dict[str, Any] = {"user": "me", "project": "main", "spec": {"configuration": 3}}
    return [*runs, bare, strange]


def test_a_run_that_cannot_be_judged_comes_back_as_it_was(
    service_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for run in unjudged():
        assert apply(service_url, run) == (200, {"spec": run["spec"], "error": None})
        # Behind candidates, too.
        answer = apply(service_url, run, prefix="/P4,A100")[1]["spec"]
        assert answer == run["spec"] or run == changed(name=None)
    # What users write is no defect of the service.
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("kind", ["fleet", "volume", "gateway"])
def test_everything_but_runs_comes_back_as_it_was(service_url: str, kind: str) -> None:
    assert apply(service_url, RUN, kind) == (200, {"spec": RUN["spec"], "error": None})


def test_what_is_no_request_of_the_plugin_is_refused(service_url: str) -> None:
    assert apply(service_url, {"user": "me"})[0] == 422
    assert apply(service_url, b"{")[0] == 400


@pytest.fixture(scope="module")
def applied(service_url: str) -> list[dict[str, Any]]:
    """What dstack's own client and ours make of a run, with the service and without it."""
    python = python_with("dstack", INTERPRETER, ["dstack==0.22.0"])
    uris = [f"{service_url}/v1/adapters/dstack", "http://127.0.0.1:9/v1/adapters/dstack"]
    run = subprocess.run(
        [python, "-W", "ignore", CHILD, *uris],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "examples" / "dstack")},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_dstacks_own_client_takes_the_changed_run(applied: list[dict[str, Any]]) -> None:
    assert applied[0] == {
        "their plugin": ["A100", "V100"],
        "our plugin": ["A100", "V100"],
        "fleet": "unchanged",
    }


@pytest.mark.slow
def test_dstack_goes_on_with_our_plugin_only(applied: list[dict[str, Any]]) -> None:
    assert applied[1] == {
        "their plugin": "refused",
        "our plugin": ["P4", "V100", "A100"],
        "fleet": "refused",
    }
