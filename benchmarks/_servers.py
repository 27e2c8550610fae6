"""Servers for benchmarks: the service and an empty FastAPI application, on ports of their own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Questions that any request takes for an answer of ``{}``: what the framework alone costs.
_EMPTY_APP = """
from fastapi import FastAPI
app = FastAPI()
@app.post("{path}")
async def empty():
    return {{}}
"""
_UVICORN = (sys.executable, "-m", "uvicorn", "--log-level", "warning", "--no-access-log")


@dataclass(frozen=True)
class Server:
    """A running server.

    Parameters
    ----------
    port : int
    process : psutil.Process
    ready_s : float
        From its start to its first answer.
    """

    port: int
    process: psutil.Process
    ready_s: float

    @property
    def workers(self) -> list[psutil.Process]:
        """The process and what it started."""
        return [self.process, *self.process.children(recursive=True)]

    def cpu_s(self) -> float:
        """Return the seconds that it and what it started have computed."""
        times = [one.cpu_times() for one in self.workers]
        return float(sum(t.user + t.system for t in times))

    def ask(self, path: str, content: bytes | None = None, timeout_s: float = 600.0) -> bytes:
        """Send one request of JSON and return the answer."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", content, headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            answer: bytes = response.read()
        return answer

    def ask_json(self, path: str, content: object = None) -> dict:
        """Send one request and read the answer."""
        body = None if content is None else json.dumps(content).encode()
        answer: dict = json.loads(self.ask(path, body))
        return answer


@contextlib.contextmanager
def service(
    folder: str | Path,
    port: int,
    *,
    models: str = "models",
    workers: int = 1,
    settings: Mapping[str, str] | None = None,
    code: Path | None = None,
) -> Iterator[Server]:
    """Run the service, its database in a folder.

    Parameters
    ----------
    folder : path
    port : int
    models : str
        Folder of trained models; "" lets the analytical model answer.
    workers : int
    settings : mapping of str to str
        Further variables of the environment.
    code : Path or None
        Folder of the packages that run; None: those of this process.
    """
    environment = {
        "PERFMODEL_MODELS": models or str(Path(folder) / "no-models"),
        "PERFMODEL_DATABASE": f"sqlite:///{folder}/bench.db",
        "PERFMODEL_LOG_LEVEL": "warning",
        **(settings or {}),
    }
    command = [*_UVICORN, "--factory", "service.serve:app_of_worker", "--workers", str(workers)]
    if code is not None:
        environment["PYTHONPATH"] = str(code)
    with _running(command, port, "/v2/health/ready", environment, code) as server:
        yield server


@contextlib.contextmanager
def empty(folder: str | Path, port: int, path: str) -> Iterator[Server]:
    """Run an application that answers ``{}`` to everything that is sent to a path."""
    (Path(folder) / "empty_app.py").write_text(_EMPTY_APP.format(path=path), encoding="utf-8")
    command = [*_UVICORN, "--app-dir", str(folder), "empty_app:app"]
    with _running(command, port, "/openapi.json", {}) as server:
        yield server


@contextlib.contextmanager
def _running(
    command: list[str],
    port: int,
    path: str,
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> Iterator[Server]:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            # It would answer in the place of the one that is started.
            raise RuntimeError(f"Something listens on port {port} already. End it first.")
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--port", str(port)], env={**os.environ, **environment}, cwd=folder
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}{path}", process)
        ready_s = time.perf_counter() - began
        yield Server(port=port, process=psutil.Process(process.pid), ready_s=ready_s)
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen, timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).read()
            return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("The server ended before it answered.") from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def one_of_each_worker(server: Server) -> Iterator[list[http.client.HTTPConnection]]:
    """Open connections until each worker has one, and keep one of each."""
    opened: list[http.client.HTTPConnection] = []
    found: dict[int, http.client.HTTPConnection] = {}
    workers = [one for one in server.process.children(recursive=True) if _serves(one, server.port)]
    while len(found) < len(workers):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("GET", "/v2/health/live")
        connection.getresponse().read()
        opened.append(connection)
        port = connection.sock.getsockname()[1]
        for worker in workers:
            if any(one.raddr and one.raddr.port == port for one in worker.net_connections()):
                found.setdefault(worker.pid, connection)
    try:
        yield list(found.values())
    finally:
        for connection in opened:
            connection.close()


def _serves(process: psutil.Process, port: int) -> bool:
    return any(one.laddr.port == port for one in process.net_connections())


def resident_bytes(process: psutil.Process) -> int:
    """Return the memory that a process has touched, what it shares with others included."""
    return int(process.memory_info().rss)


def own_bytes(process: psutil.Process) -> int:
    """Return the memory that belongs to a process alone."""
    return int(process.memory_full_info().uss)


def ratio(value: float, limit: float, *, least: bool) -> str:
    """Say how a figure stands to its limit.

    Parameters
    ----------
    value, limit : float
    least : bool
        The limit is the least that is wanted, else the most.
    """
    held = value >= limit if least else value <= limit
    return f"{value / limit:.2f} of the {'least' if least else 'most'} wanted" + (
        "" if held else ", MISSED"
    )
