"""The same questions again and again, to two workers and after a restart: one answer each."""

from __future__ import annotations

import hashlib
import http.client
import json
import tempfile
import threading
import time
from collections import Counter

from _servers import Server, one_of_each_worker, service
from http_throughput import PATH
from reliability_rows.row import Found

PORT = 18_800
#: Until another worker has heard of an observation, seconds.
HEARD_S = 2.5
_JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 32}
_LANGUAGE = {"model": "zoo/gpt2-decode", "mode": "inference", "batch_size": 4}
_OTHER = {"model": "timm/vit_tiny_patch16_224", "mode": "inference", "batch_size": 8}
_SPLIT = {"nodes": [{"accelerator": "A100-SXM4-80GB", "count": 8, "repeat": 2}],
          "network": "ib-200g"}  # fmt: skip
QUESTIONS: tuple[tuple[str, dict], ...] = (
    (PATH, {"job": _JOB, "placement": "A100-SXM4-80GB"}),
    (PATH, {"job": _LANGUAGE, "placement": "H100-SXM5-80GB"}),
    (PATH, {"job": _JOB, "placement": _SPLIT}),
    ("/v1/matrix", {"jobs": [_JOB, _OTHER], "placements": ["T4", "8xA10", "2x(4xV100-SXM2-16GB)"]}),
    ("/v1/curve", {"job": _JOB, "accelerator": "L4"}),
    ("/v1/rank", {"job": _OTHER, "placements": ["T4", "A10", "MI300X"]}),
    ("/v1/explain", {"job": _JOB, "placement": "T4"}),
)


def measure(count: int) -> Found:
    """Ask so often in all, half of it after a restart."""
    seen: dict[int, Counter[str]] = {number: Counter() for number in range(len(QUESTIONS))}
    workers = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            with service(folder, PORT, workers=2) as server:
                _observe(server)
                workers += _ask(server, count // 2, seen)
    answers = sum(sum(one.values()) for one in seen.values())
    different = sum(len(one) - 1 for one in seen.values())
    measured = (
        f"{answers:,} answers to {len(QUESTIONS)} questions by {workers} workers of two starts: "
        f"{different} that differed from the first"
    )
    return Found(measured=measured, held=different == 0 and answers >= count and workers == 4)


def _observe(server: Server) -> None:
    """Store what corrects an answer, and wait until both workers answer by it."""
    seen = {"job": _JOB, "placement": "T4", "step_time_s": 0.5, "key": "once"}
    server.ask_json("/v1/observations", {"observations": [seen]})
    time.sleep(HEARD_S)


def _ask(server: Server, count: int, seen: dict[int, Counter[str]]) -> int:
    """Ask each worker over a connection of its own; returns how many there are."""
    lock = threading.Lock()

    def ask(connection: http.client.HTTPConnection, count: int) -> None:
        for number in range(count):
            which = number % len(QUESTIONS)
            digest = _digest(connection, *QUESTIONS[which])
            with lock:
                seen[which][digest] += 1

    with one_of_each_worker(server) as connections:
        each = -(-count // len(connections))
        threads = [threading.Thread(target=ask, args=(one, each)) for one in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(connections)


def _digest(connection: http.client.HTTPConnection, path: str, body: dict) -> str:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    return f"{response.status} {hashlib.sha256(content).hexdigest()}"
