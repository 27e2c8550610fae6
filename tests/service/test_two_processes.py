"""Two services as processes of their own on one PostgreSQL; one of them is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from postgresql import PostgresqlServer

ROOT = Path(__file__).resolve().parents[2]
START = (
    "import sys; from service.serve import serve; serve(port=0, models='', database=sys.argv[1])"
)
JOB = {"job_type": "click-rates", "mode": "training", "batch_size": 512}


@contextmanager
def _service(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    folder.mkdir()
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


def _ask(address: str, body: Any = None, **headers: str) -> Any:
    request = urllib.request.Request(
        address,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


@pytest.mark.slow
def test_what_one_took_in_the_other_answers_when_it_was_killed(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    url = postgresql.migrated_database()
    with ExitStack() as stack:
        one, here = stack.enter_context(_service(url, tmp_path / "a"))
        _, there = stack.enter_context(_service(url, tmp_path / "b"))
        seen = {"job": JOB, "placement": "T4", "step_time_s": 0.2}
        ref = _ask(f"{here}/v1/jobs", {"job": JOB})["ref"]
        assert _ask(f"{here}/v1/observations", [seen])["accepted"] == 1
        question = {"job": ref, "placement": "T4"}
        stored = time.monotonic()
        wanted = _ask(f"{here}/v1/predict", question)
        while _ask(f"{there}/v1/predict", question) != wanted:
            assert time.monotonic() < stored + 2
        matrix = {"jobs": [JOB] * 60, "placements": ["T4", "A10"] * 5}
        later = {"Prefer": "respond-async"}
        kept = [_ask(f"{here}/v1/matrix", matrix, **later)["id"] for _ in range(6)]
        one.kill()
        killed = time.monotonic()
        left = set(kept)
        while left and time.monotonic() < killed + 60:
            states = {name: _ask(f"{there}/v1/operations/{name}")["state"] for name in left}
            left = {name for name, state in states.items() if state != "done"}
            time.sleep(0.2)
        assert not left, states
        results = [_ask(f"{there}/v1/operations/{name}/result") for name in kept]
        assert all(result == results[0] for result in results)
        print(f"taken over after {time.monotonic() - killed:.1f} s")
