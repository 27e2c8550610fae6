"""Benchmarks start as their first lines say; those that can be made small run through."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.training.placement_rows.script_rows import Group, Measured

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"
FILES = sorted(FOLDER.glob("[a-z]*.py"))
#: Have no options, and would begin to measure.
WITHOUT_OPTIONS = ("cli_help.py", "placements.py", "plan_search.py")

#: One process for all: they load the same libraries.
_HELP = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
for file in sys.argv[2:]:
    sys.argv = [file, "--help"]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        assert not end.code, file
        continue
    raise AssertionError(f"{file} shows no help")
"""


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_says_what_it_takes() -> None:
    files = [str(path) for path in FILES if path.name not in WITHOUT_OPTIONS]
    assert len(files) > 10
    run = subprocess.run(
        [sys.executable, "-c", _HELP, str(FOLDER), *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("usage: ") == len(files)


def test_each_is_listed() -> None:
    listed = (FOLDER / "README.md").read_text()
    assert [path.name for path in FILES if f"| `{path.name}` |" not in listed] == []


def test_placements_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    module = _module("placements")
    module.JOBS, module.PLACEMENTS, module.COUNTS = 2, 3, 4
    module.SCRIPTS, module.PAIRED_KINDS = 2, 1
    module.main()
    matrix, curve, pairs = capsys.readouterr().out.splitlines()
    assert matrix.startswith("matrix 2 x 3: ") and curve.startswith("curve 1 to 4: ")
    assert pairs.startswith("pairs 2 x 2: ")


def _group(level: float, seed: int) -> Measured:
    """Return steps that take e^level times as long as predicted, two of them measured twice."""
    steps = world.measured(world.cells(), seed=seed)
    slow = replace(steps, step_time_s=steps.step_time_s * math.exp(level))
    again = slow.take(np.array([0, 1]))
    again = replace(again, step_time_s=slow.step_time_s[:2] * 1.1)
    digits = np.repeat(["1", "2", "4", "8", "11", "44", "88"], 3)
    return Measured(ObservedSteps.join([slow, again]), np.append(digits, ["1", "1"]))


def test_floors_of_placements_are_what_they_say() -> None:
    module = _module("placement_floor")
    levels = {("a", "x"): 0.0, ("a", "y"): 0.5, ("b", "x"): 1.0, ("b", "y"): 1.5}
    groups = {Group(*name): _group(level, 0) for name, level in levels.items()}
    # 1.1 answered by 1 is 1 / 11 off, 1 by 1.1 a tenth.
    assert module.repeat_errors(groups["a", "x"]) == pytest.approx([0.1, 1 / 11] * 2)
    # 0.5 between the clusters and 1 between the jobs, without a remainder.
    assert module.level_error(groups) < 0.01
    off = {**groups, Group("b", "y"): _group(0.0, 0)}
    assert module.level_error(off) > 0.1
    assert 0 < module.oracle_errors(groups["a", "x"]).mean() < 0.2


def test_a_search_of_plans_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    module = _module("plan_search")
    module.QUESTIONS = module.QUESTIONS[:1]
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mpt-7b on 8xA100-SXM4-80GB:"
    assert "micro-batches of" in lines[2]


def test_help_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    module = _module("cli_help")
    # How long it takes is not asked here.
    module.RUNS, module.LIMIT_S = 1, math.inf
    module.main()
    assert "perfmodel devices --help" in capsys.readouterr().out
