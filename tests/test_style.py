"""The house style, checked by the tools that ``make lint`` and ``make types`` run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("perfmodel", "service", "tests", "benchmarks", "examples", "docs")
CODE = [name for name in FOLDERS if (ROOT / name).is_dir()]


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", *CODE], ["ruff", "format", "--check", *CODE], ["mypy"]],
    ids=["ruff check", "ruff format", "mypy --strict"],
)
def test_tool_finds_nothing(command: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert run.returncode == 0, run.stdout + run.stderr
