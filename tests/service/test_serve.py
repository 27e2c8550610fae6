"""The service as a process: ready, answering, ending."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

START = """
import sys
from service.serve import serve
serve(port=0, models=sys.argv[1], database=sys.argv[2])
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    script = tmp_path / "start.py"
    script.write_text(START)
    root = Path(__file__).resolve().parents[2]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "models"), f"sqlite:///{tmp_path}/a.db"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    yield process, line.split()[3], time.monotonic() - began
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_service_is_ready_within_five_seconds_and_ends_cleanly(
    started: tuple[subprocess.Popen[str], str, float],
) -> None:
    process, url, ready_after_s = started
    assert ready_after_s < 5
    with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=5) as response:
        assert json.load(response) == {"status": "ready", "detail": []}
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 0


def test_starting_loads_no_torch() -> None:
    code = "import sys, service.serve; print('torch' in sys.modules, 'xgboost' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
