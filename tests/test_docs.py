"""What the pages tell readers to type works: every curl and the programs of docs/client.md."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from guarded_service import CREATED, make_app
from running import running
from service_process import service_process
from small_pages import FENCED, fenced_and_indented
from trained_version import two_versions

from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.routes.graphs import GRAPH_EXAMPLE

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
#: The addresses that pages use.
_LOCAL, _ELSEWHERE = "http://127.0.0.1:8000", "perfmodel.example"

#: Fails where the service refuses; what is no curl has been done before or takes too long.
_SHELL = """set -e -o pipefail
curl() { command curl --fail-with-body --silent --show-error "$@"; }
perfmodel() { :; }
"""


def _scripts(page: Path) -> list[str]:
    blocks = fenced_and_indented(page.read_text())
    return [block for block in blocks if re.search(r"^\s*(\w+=\$\()?curl |\| *curl", block, re.M)]


SCRIPTS = [
    pytest.param(script, id=f"{page.relative_to(ROOT)} {number}")
    for page in PAGES
    for number, script in enumerate(_scripts(page))
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a service as its operators do, and give its URL."""
    folder = tmp_path_factory.mktemp("docs")
    two_versions(folder / "models")
    database = f"sqlite:///{folder / 'perfmodel.db'}"
    settings = {"PERFMODEL_ONNX_TIME_S": "60", "PERFMODEL_RETRAIN_HERE": "false"}
    started = service_process(database, folder, models=str(folder / "models"), **settings)
    with started as (_, service):
        yield service.url


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("guarded_docs")
    token, key = new_key("me", ["admin"], created_at=CREATED)
    KeyFile(folder / "keys.json").add(key)
    with running(make_app(folder, models=folder / "models")) as found:
        yield found, token


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the pages speak of."""
    found = tmp_path_factory.mktemp("typed")
    graph = {**GRAPH_EXAMPLE, "source": {"mode": "training", "batch_size": "8"}}
    (found / "graph.json").write_text(json.dumps(graph))
    (found / "model.onnx").write_bytes(_onnx_model())
    return found


def _onnx_model() -> bytes:
    """Return a matrix product over a batch of sequences."""
    floats = onnx.TensorProto.FLOAT
    shapes = {"x": ["batch", "sequence", 16], "w": [16, 4], "y": ["batch", "sequence", 4]}
    values = {
        name: onnx.helper.make_tensor_value_info(name, floats, shape)
        for name, shape in shapes.items()
    }
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [values["x"]],
        [values["y"]],
        [onnx.helper.make_tensor("w", floats, [16, 4], [0.5] * 64)],
    )
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset]).SerializeToString()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_curl_is_answered(
    script: str, url: str, guarded: tuple[str, str], folder: Path
) -> None:
    if _ELSEWHERE in script:
        url, token = guarded
        script = script.replace("pmk_...", token).replace(f"https://{_ELSEWHERE}", url)
        script = script.replace(
            f"https://any:{token}@{_ELSEWHERE}", url.replace("//", f"//any:{token}@")
        )
    run = subprocess.run(
        ["bash", "-c", _SHELL + script.replace(_LOCAL, url)],
        capture_output=True, text=True, cwd=folder, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout


def test_every_route_has_a_curl(url: str, tmp_path: Path) -> None:
    typed = "\n".join(script for page in PAGES for script in _scripts(page))
    commands = re.split(r"(?=\bcurl )", typed.replace("$place", "/v1/operations/x"))
    asked = {asked for command in commands if (asked := _asked(command))}
    missing = []
    for path, methods in make_app(tmp_path, models=tmp_path / "models").openapi()["paths"].items():
        pattern = re.compile(re.sub(r"\{\w+\}", r"[^/]+", path))
        for method in methods:
            known = any(how == method.upper() and pattern.fullmatch(what) for how, what in asked)
            if not known and path.startswith(("/v1/", "/v2/health", "/metrics")):
                missing.append(f"{method.upper()} {path}")
    # Spoken by dstack alone.
    assert not [one for one in missing if "/v1/adapters/dstack" not in one]


def _asked(command: str) -> tuple[str, str] | None:
    """Return method and path of a curl."""
    path = re.search(rf"(?:{_LOCAL}|{_ELSEWHERE})(/[^'\"\s?]*)", command)
    if path is None:
        return None
    stated = re.search(r"-X (\w+)", command)
    sends = re.search(r"\s(-d|--data-binary)\s", command)
    return (stated.group(1) if stated else "POST" if sends else "GET"), path.group(1)


@pytest.mark.parametrize(
    "program",
    [
        code
        for language, code in FENCED.findall((ROOT / "docs" / "client.md").read_text())
        if language == "python"
    ],
    ids=lambda code: code.splitlines()[-1].strip()[:40],
)
def test_the_programs_of_the_client_run(
    program: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named: dict[str, object] = {"__name__": "program"}
    exec(compile(program.replace(_LOCAL, url), "docs/client.md", "exec"), named)
    assert capsys.readouterr().out or named["speed"]
