"""AdaptDL's own PolluxPolicy, from its packages in a venv of its own, on predictions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from foreign_venv import python_with

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("pollux_policy_child.py")

#: An interpreter that has the packages already; without it a venv is made.
INTERPRETER = "PERFMODEL_ADAPTDL_PYTHON"

#: AdaptDL uses names that newer releases of numpy, scipy and pymoo no longer have.
BUILDS = ("setuptools<66", "wheel")
PINNED = ("numpy==1.23.5", "scipy<1.12", "autograd", "pymoo==0.5.0", "requests")
PACKAGES = ("--no-deps", "adaptdl==0.2.11", "adaptdl-sched==0.2.11")


@pytest.fixture(scope="module")
def adaptdl_python() -> Path:
    if sys.version_info[:2] > (3, 11) and INTERPRETER not in os.environ:
        pytest.skip("numpy 1.23, which AdaptDL needs, has no build for this Python")
    return python_with("adaptdl", INTERPRETER, BUILDS, PINNED, PACKAGES)


@pytest.fixture(scope="module")
def outcome(adaptdl_python: Path, service_url: str) -> dict[str, Any]:
    run = subprocess.run(
        [adaptdl_python, "-W", "ignore", CHILD, service_url],
        capture_output=True, text=True, check=False, timeout=1200,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hints", "direct", "without the service"])
def test_the_policy_allocates_what_the_nodes_hold(outcome: dict[str, Any], way: str) -> None:
    allocations = outcome[way]
    used = Counter(node for nodes in allocations.values() for node in nodes)
    assert 0 < sum(used.values()) <= 16
    assert max(used.values()) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hints", "direct"])
def test_the_job_that_scales_gets_more(outcome: dict[str, Any], way: str) -> None:
    scaling = max(outcome["speedups"], key=lambda key: outcome["speedups"][key][way])
    other = next(key for key in outcome["speedups"] if key != scaling)
    assert len(outcome[way][scaling]) >= len(outcome[way][other])


@pytest.mark.slow
def test_our_parameters_suit_adaptdls_form_as_well_as_its_own_fit(outcome: dict[str, Any]) -> None:
    for errors in outcome["fit"].values():
        assert errors["ours"] < errors["theirs"] + 0.02
