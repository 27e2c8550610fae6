"""``predict``, ``compare`` and ``curve`` where a service is named, as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_process import service_process

from perfmodel.client import Client

RESNET = ["timm/resnet18", "--batch-size", "4", "--mode", "training"]
#: Libraries that only who answers needs.
_HEAVY = ("torch", "xgboost", "scipy", "timm", "sqlalchemy")
_ASK = f"""
import sys
from perfmodel.cli import cli
try:
    cli.main(sys.argv[1:])
finally:
    loaded = [name for name in {_HEAVY!r} if name in sys.modules]
    print("loaded", loaded, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a service without a trained model."""
    folder = tmp_path_factory.mktemp("service")
    with service_process(f"sqlite:///{folder}/state.db", folder) as (_, service):
        yield service.url


def _ask(*args: str, url: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _ASK, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PERFMODEL_URL": url, "PERFMODEL_MODELS": "none", **environment},
    )


def _answer(*args: str, url: str = "") -> Any:
    found = _ask(*args, "--json", url=url)
    assert found.returncode == 0, found.stderr
    if url:
        assert f"Asking {url}." in found.stderr
        assert "loaded []" in found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    "question",
    [
        ["predict", *RESNET, "--on", "2xT4"],
        ["compare", *RESNET, "--on", "T4", "--on", "L4", "--on", "A100-SXM4-80GB"],
        ["curve", *RESNET, "--on", "T4", "--most", "4"],
    ],
    ids=lambda question: question[0],
)
def test_the_service_answers_as_this_machine_would(url: str, question: list[str]) -> None:
    there, here = _answer(*question, url=url), _answer(*question)
    for row in there if isinstance(there, list) else [there]:
        assert "roofline" in row["model_version"]
    assert there == here


def test_every_request_of_a_file_is_asked_and_a_refused_one_stands_in_its_place(
    url: str, tmp_path: Path
) -> None:
    job = {"model": "timm/resnet18", "mode": "training", "batch_size": 4}
    path = tmp_path / "requests.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"job": job, "placement": where}) for where in ("T4", "A100-SXM4-80BG")
        )
    )
    found = _ask("predict", "--jsonl", str(path), url=url)
    assert found.returncode == 1
    good, bad = (json.loads(line) for line in found.stdout.splitlines())
    assert good["basis"] == "analytical"
    assert bad["line"] == 2 and "A100-SXM4-80GB" in bad["did_you_mean"]
    assert bad["errors"][0]["pointer"].startswith("/placement")


def test_a_line_that_is_no_object_is_refused_alone(url: str, tmp_path: Path) -> None:
    good = {"job": {"model": "timm/resnet18", "mode": "training", "batch_size": 4}}
    lines = ["[]", "null", '"T4"', json.dumps({**good, "placement": "T4"})]
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(lines))
    for service in (url, ""):
        found = _ask("predict", "--jsonl", str(path), url=service)
        assert found.returncode == 1, found.stderr
        *refused, answered = map(json.loads, found.stdout.splitlines())
        assert answered["step_time_s"] > 0
        said = [(one["line"], one["detail"]) for one in refused]
        assert said == [
            (1, "A request must be an object; got []."),
            (2, "A request must be an object; got None."),
            (3, "A request must be an object; got 'T4'."),
        ]


def test_a_registered_job_may_be_asked_about(url: str, tmp_path: Path) -> None:
    job = {"model": "timm/resnet18", "mode": "training", "batch_size": 4}
    with Client(url) as service:
        ref = service.register_job(job).ref
    path = tmp_path / "request.json"
    for named in (ref, {"ref": ref}):
        path.write_text(json.dumps({"job": named, "placement": "T4"}))
        found = _ask("predict", str(path), url=url)
        assert found.returncode == 0, found.stderr
        assert ref in found.stdout.splitlines()[0]


def test_what_a_service_refuses_is_refused(url: str) -> None:
    found = _ask("predict", "timm/resnt18", "--on", "T4", "--json", url=url)
    assert found.returncode == 2
    assert "timm/resnet18" in json.loads(found.stdout)["did_you_mean"]
    local = _ask("predict", *RESNET, "--on", "local", url=url)
    assert local.returncode == 2 and "PERFMODEL_URL" in local.stderr


def test_this_machine_answers_in_its_place_only_when_told_to() -> None:
    nobody = "http://127.0.0.1:9"
    question = ["predict", *RESNET, "--on", "T4"]
    alone = _ask(*question, url=nobody)
    assert alone.returncode == 4 and "--fall-back" in alone.stderr and not alone.stdout
    assert "127.0.0.1:9 cannot be asked: [Errno 111] Connection refused." in alone.stderr
    found = _ask(*question, "--fall-back", url=nobody)
    assert found.returncode == 0, found.stderr
    assert "This machine answers." in found.stderr and "samples/s" in found.stdout


def test_stated_models_are_those_of_this_machine() -> None:
    nobody = "http://127.0.0.1:9"
    question = ["predict", *RESNET, "--on", "T4", "--models", "none"]
    found = _ask(*question, url=nobody)
    assert found.returncode == 0, found.stderr
    assert f"this machine answers, and not {nobody}" in found.stderr
    assert "There is no folder of models 'none'" in found.stderr
    both = _ask(*question, "--service", nobody)
    assert both.returncode == 2 and "--models says with what this machine" in both.stderr


def test_captures_are_kept_for_the_next_command(tmp_path: Path) -> None:
    # Its graph does not come with the package.
    question = ["predict", "zoo/operator-linear", "--on", "T4", "--json"]
    first, second = (_ask(*question, PERFMODEL_CACHE=str(tmp_path)) for _ in range(2))
    assert first.stdout == second.stdout
    assert "'torch'" in first.stderr and "'torch'" not in second.stderr
    (kept,) = (tmp_path / "captures").glob("*.db")
    kept.write_bytes(b"no database")
    damaged = _ask(*question, PERFMODEL_CACHE=str(tmp_path))
    assert damaged.stdout == first.stdout
