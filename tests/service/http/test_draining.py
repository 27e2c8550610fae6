"""SIGTERM loses no request: what is in flight is answered, connections are told that they end."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from free_ports import free_port
from service_process import service_process
from waiting import PATIENCE_S, until

pytest.importorskip("torch")

KNOWN = {"job": {"model": "zoo/mlp", "mode": "training", "batch_size": 8}, "placement": "A10"}
HEADERS = {"Content-Type": "application/json"}


class Caller(threading.Thread):
    """Asks over one connection until it is told that this one closes."""

    def __init__(self, port: int, question: dict[str, Any], *, once: bool = False) -> None:
        super().__init__()
        self._port, self._question, self._once = port, json.dumps(question), once
        self.statuses: list[int] = []
        self.was_told = False
        self.has_asked = threading.Event()
        self.lost: Exception | None = None

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            while not self.was_told:
                connection.request("POST", "/v1/predict", self._question, HEADERS)
                self.has_asked.set()
                answer = connection.getresponse()
                answer.read()
                self.statuses.append(answer.status)
                self.was_told = answer.getheader("connection") == "close" or self._once
        except (OSError, http.client.HTTPException) as error:
            self.lost = error
        finally:
            connection.close()


def test_sigterm_under_load_answers_what_is_in_flight(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/a.db"
    with service_process(database, tmp_path, PERFMODEL_DRAIN_S="5") as (process, service):
        port = urlsplit(service.url).port
        assert port is not None
        assert service.ask("/v1/predict", KNOWN)["throughput"]
        busy = [Caller(port, KNOWN) for _ in range(8)]
        # Not known yet: captured while the service is told to end.
        new = {**KNOWN, "job": {**KNOWN["job"], "model": "zoo/ncf", "batch_size": 1024}}
        slow = Caller(port, new, once=True)
        for caller in (*busy, slow):
            caller.start()
        assert slow.has_asked.wait(PATIENCE_S)
        until(lambda: all(caller.statuses for caller in busy))
        process.send_signal(signal.SIGTERM)
        for caller in (*busy, slow):
            caller.join(PATIENCE_S)
        assert [caller.lost for caller in (*busy, slow)] == [None] * 9
        assert all(caller.was_told for caller in busy)
        assert {status for caller in (*busy, slow) for status in caller.statuses} == {200}
        process.wait(timeout=PATIENCE_S)
        assert process.returncode in (0, -signal.SIGTERM)


def test_readiness_says_no_while_the_service_ends_and_health_has_a_port(tmp_path: Path) -> None:
    health_port = free_port()
    database = f"sqlite:///{tmp_path}/a.db"
    stated = {"PERFMODEL_DRAIN_S": "60", "PERFMODEL_HEALTH_PORT": str(health_port)}
    with service_process(database, tmp_path, **stated) as (process, service):
        port = urlsplit(service.url).port
        assert port is not None

        def health(on: int, path: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", on, timeout=PATIENCE_S)
            with contextlib.closing(connection):
                connection.request("GET", f"/v2/health/{path}")
                return connection.getresponse().status

        def is_ready() -> bool:
            try:
                return health(health_port, "ready") == 200
            except ConnectionRefusedError:
                return False

        until(is_ready)
        assert [health(on, "live") for on in (port, health_port)] == [200, 200]
        process.send_signal(signal.SIGTERM)
        until(lambda: health(port, "ready") != 200)
        assert [health(on, "ready") for on in (port, health_port)] == [503, 503]
        assert [health(on, "live") for on in (port, health_port)] == [200, 200]
        # The second signal ends it at once.
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_S)
