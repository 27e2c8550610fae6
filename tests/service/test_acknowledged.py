"""An observation that the service acknowledged is there after the service was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START = (
    "import sys; from service.serve import serve; serve(port=0, models='', database=sys.argv[1])"
)
JOB = {"job_type": "click-rates", "mode": "training", "batch_size": 512}


@contextmanager
def service(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", START, url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        # "perfmodel answers on <address> (docs: ..."
        yield process, process.stdout.readline().split()[3]
    finally:
        process.kill()
        process.communicate()


def _ask(address: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"{address}/v1/observations",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


def test_acknowledged_observations_are_answered_after_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with service(url, tmp_path) as (process, address):
        for key in ("a", "b"):
            sent = {"job": JOB, "placement": "8xT4", "step_time_s": 0.2, "key": key}
            assert _ask(address, [sent])["accepted"] == 1
        process.kill()  # SIGKILL: nothing is written on the way out
    with service(url, tmp_path) as (_, address):
        listed = _ask(address)["observations"]
    assert [seen["key"] for seen in listed] == ["b", "a"]
