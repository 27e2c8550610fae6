"""Jobs that adapters ask about, and servers that fail in every way."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from synthetic_workloads import mlp
from waiting import PATIENCE_S

from perfmodel.adapters.ask import Answers, Cell, JobForm, PlacementForm, SeenInMatrix
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Role

#: Widths of the layers of each model: 17, 4 and 1074 million parameters.
MODELS = {
    "timm/small": (512,) * 65,
    "timm/wide": (2048, 2048),
    "timm/huge": (16384,) * 5,
}


@lru_cache(maxsize=256)
def _step(model: str, batch_size: int, training: bool) -> CapturedStep:
    graph = mlp(batch_size, list(MODELS[model]), "relu", training=training)
    # Only the gradients of weights are exchanged; those of activations have a row a sample.
    tensors = tuple(
        replace(tensor, role=Role.ACTIVATION)
        if tensor.role is Role.GRADIENT and tensor.shape[0] == batch_size
        else tensor
        for tensor in graph.tensors
    )
    return CapturedStep(graph=replace(graph, tensors=tensors))


def capture(job: Job) -> CapturedStep:
    """Capture the known models as fully connected layers."""
    if job.model not in MODELS:
        raise UnknownModelError(job.label, known=tuple(MODELS), pointer="/job/model")
    return _step(job.model, job.batch_size, job.mode is Mode.TRAINING)


def training(model: str, batch_size: int = 64) -> dict[str, Any]:
    """A job as JSON."""
    return {"model": model, "mode": "training", "batch_size": batch_size}


class ToldOften:
    """Answers that are told every measurement once more for each job, as if each had it."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.memory_bytes = answers.memory_bytes
        #: Measurements that came, and that were told.
        self.came = self.told = 0

    def cells(
        self,
        jobs: Sequence[JobForm],
        placements: Sequence[PlacementForm],
        observations: Sequence[SeenInMatrix] = (),
    ) -> list[list[Cell | None]]:
        often: list[SeenInMatrix] = [
            {**one, "job": row} for row in range(len(jobs)) for one in observations
        ]
        self.came, self.told = len(observations), len(often)
        return self._answers.cells(jobs, placements, often)


@contextmanager
def raw_server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does to each connection what it is told."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65_536)
                    talk(connection)
                except OSError:
                    continue

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _say(body: bytes, status: str = "200 OK") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return lambda connection: connection.sendall(head.encode() + body)


def _drip(connection: socket.socket) -> None:
    """Send a byte at a time until nobody listens."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        connection.sendall(b" ")
        time.sleep(0.05)


def _stay_silent(connection: socket.socket) -> None:
    """Say nothing until the client hangs up."""
    connection.settimeout(PATIENCE_S)
    connection.recv(1)


#: What a service may do in place of answering.
FAILURES: dict[str, Callable[[socket.socket], None]] = {
    "hangs up": lambda connection: None,
    "slow": _stay_silent,
    "drips": _drip,
    "garbage": _say(b"<html>not JSON</html>"),
    "another shape": _say(b'{"samples_per_second": [[1.0]], "accelerators": 3}'),
    "no number": _say(
        b'{"samples_per_second": [["fast"]], "step_time_s": [[-1]], "peak_bytes": [[0]],'
        b' "fits": [[1]], "accelerators": [{"name": "T4"}]}'
    ),
    "error": _say(b"{}", "500 Internal Server Error"),
    "refusal": _say(b'{"title": "no"}', "422 Unprocessable Entity"),
}
