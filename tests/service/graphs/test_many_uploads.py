"""Forty uploads at once: as many processes as there are places, and health answers meanwhile."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from waiting import until

from service.settings import Settings

pytest.importorskip("onnx")

ONNX = {"content-type": "application/octet-stream"}
UPLOADS = 40


def _readers() -> int:
    count = 0
    for child in psutil.Process().children(recursive=True):
        try:
            count += "service.graphs.onnx_child" in child.cmdline()
        except psutil.Error:
            continue
    return count


def test_forty_uploads_have_the_processes_of_two(tmp_path: Path, app: FastAPI) -> None:
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.is_set():
            most = max(most, _readers())
            time.sleep(0.01)

    with TestClient(app, raise_server_exceptions=False) as client, ThreadPoolExecutor(48) as pool:
        watching = pool.submit(watch)
        url = "/v1/graphs?batch_size=1"
        asked = [pool.submit(client.post, url, content=b"x" * 102, headers=ONNX)
                 for _ in range(UPLOADS)]  # fmt: skip
        until(lambda: most, every_s=0.01)
        assert client.get("/v2/health/live").status_code == 200
        assert client.get("/v1/graphs").status_code == 200
        answers = [one.result() for one in asked]
        done.set()
        watching.result()
    assert 1 <= most <= Settings().capture_processes
    statuses = {answer.status_code for answer in answers}
    # No ONNX file; or no room, and when to come again.
    assert statuses <= {422, 503} and 422 in statuses
    assert all(a.headers.get("retry-after") for a in answers if a.status_code == 503)
