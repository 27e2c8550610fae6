"""The house style, checked by the tools that ``make lint`` and ``make types`` run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("perfmodel", "service", "tests", "benchmarks", "examples", "docs")
#: A difference of two looks at a clock with an upper bound other than that of a hang.
JUDGED_TIME = re.compile(r"(?:monotonic|time|perf_counter)\(\) - \w+ <=? (?!PATIENCE_S)")
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


def test_no_test_judges_how_fast_the_machine_is() -> None:
    """Speed is measured in ``benchmarks/``; tests count calls, wait, or note seconds."""
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if JUDGED_TIME.search(line)
    ]
    assert not found
