"""Processes of our own take no module from the folder that a user happens to stand in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from perfmodel.child_modules import module_command, module_environment
from perfmodel.engines.local_engine import LocalEngine
from perfmodel.graph.job import Job
from perfmodel.training.captures.capture_pool import CapturePool

ROOT = Path(__file__).resolve().parents[1]


def test_a_users_file_stands_for_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("torch", "timm", "orjson", "queue"):
        (tmp_path / f"{library}.py").write_text("raise SystemExit('not the library')\n")
    monkeypatch.chdir(tmp_path)
    pool = CapturePool(tmp_path / "sketches", engine=LocalEngine(workers=1))
    assert pool.run({"one": Job(model="zoo/operator-linear", batch_size=1)}) == {}


def test_the_package_is_found_where_it_is_not_installed(tmp_path: Path) -> None:
    bare = {"PATH": "/usr/bin:/bin"}
    program = "import perfmodel, sys; print(perfmodel.__file__, '' in sys.path)"
    command = [module_command("x")[0], "-S", "-P", "-c", program]
    assert subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True).returncode != 0
    said = subprocess.run(
        command,
        cwd=tmp_path,
        env=module_environment(inherited=bare),
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == [str(ROOT / "perfmodel" / "__init__.py"), "False"]


def test_every_process_of_a_module_is_started_so() -> None:
    started = re.compile(r'sys\.executable, "-m"')
    files = [path for room in ("perfmodel", "service") for path in (ROOT / room).rglob("*.py")]
    assert [path.name for path in files if started.search(path.read_text())] == []
