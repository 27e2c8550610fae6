"""What gets installed, and what must never be."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import perfmodel

ROOT = Path(__file__).resolve().parents[1]


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins}


def _project() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isinstance(project, dict)
    return project


def test_no_nvidia_package_and_no_gpu_xgboost_is_pinned() -> None:
    pins = _pins()
    assert not [name for name in pins if name.startswith(("nvidia", "cuda", "cupy", "triton"))]
    assert "xgboost-cpu" in pins
    assert "xgboost" not in pins


def test_every_declared_dependency_is_pinned() -> None:
    project = _project()
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(project["dependencies"], list)
    wanted = list(project["dependencies"])
    for extra in ("serve", "train", "onnx", "dev"):
        wanted += [line for line in extras[extra] if not line.startswith("perfmodel")]
    names = {re.split(r"[\[<>=!~ ]", line)[0].lower() for line in wanted}
    assert names <= set(_pins())


def test_version_is_the_same_everywhere() -> None:
    version = perfmodel.__version__
    assert _project()["version"] == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_ci_runs_the_tests_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["make test"]


def test_who_only_answers_needs_neither_torch_nor_arrow() -> None:
    program = """
import sys

for name in ("pyarrow", "torch"):
    sys.modules[name] = None
import service.serve
from perfmodel.errors import MissingExtraError

try:
    import perfmodel.store.profiles
except MissingExtraError as error:
    print(error.extra)
"""
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert told.stdout == "train\n"


def test_who_profiles_and_trains_needs_nothing_of_the_service() -> None:
    program = """
import sys

for name in ("alembic", "fastapi", "pydantic", "sqlalchemy", "threadpoolctl", "uvicorn"):
    sys.modules[name] = None
import perfmodel.importers.registry
import perfmodel.profilers.worker
import perfmodel.training.adapt
import perfmodel.training.probes.probe_run
import perfmodel.training.train
from perfmodel.errors import MissingExtraError

try:
    import perfmodel.campaigns.work
except MissingExtraError as error:
    print(error.extra)
"""
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert told.stdout == "serve\n"
