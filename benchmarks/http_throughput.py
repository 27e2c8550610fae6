"""Requests per second of ``POST /v1/predict`` beside an empty FastAPI route, in one run.

Two servers with one uvicorn worker each take turns; this process sends over keep-alive
connections, one request at a time on each. The jobs are known to the service (their graphs are
captured and each was predicted once on each accelerator); every body is different from the one
before, by job, accelerator and count. Run it with nothing else on the machine::

    python benchmarks/http_throughput.py --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

MODELS = (
    "resnet18",
    "resnet50",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "vit_tiny_patch16_224",
)
ACCELERATORS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-16GB", "T4", "A10", "L4", "MI300X")

EMPTY_APP = """
from fastapi import FastAPI
app = FastAPI()
@app.post("/v1/predict")
async def empty():
    return {}
"""


def bodies(batch_sizes: tuple[int, ...], counts: range) -> list[bytes]:
    """Return distinct requests; jobs repeat, but no two bodies are equal."""
    jobs = [
        {"model": f"timm/{model}", "mode": mode, "batch_size": batch_size}
        for model in MODELS
        for mode in ("inference", "training")
        for batch_size in batch_sizes
    ]
    cells = itertools.product(counts, ACCELERATORS, jobs)
    return [
        json.dumps({"job": job, "placement": f"{count}x{accelerator}"}).encode()
        for count, accelerator, job in cells
    ]


class Connection(asyncio.Protocol):
    """Sends one request after the other and notes how long each took."""

    def __init__(self, requests: Iterator[bytes], latencies_s: list[float], until: float) -> None:
        self._requests = requests
        self._latencies_s = latencies_s
        self._until = until
        self._buffer = b""
        self._sent_at = 0.0
        self.errors = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = transport
        self._send()

    def _send(self) -> None:
        body = next(self._requests)
        head = (
            "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._sent_at = time.perf_counter()
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        """Note a whole answer and send the next request."""
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator or len(rest) < _content_length(head):
            return
        now = time.perf_counter()
        self._latencies_s.append(now - self._sent_at)
        self.errors += not head.startswith(b"HTTP/1.1 200")
        self._buffer = b""
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell that this connection is through."""
        if not self.done.done():
            self.done.set_result(None)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError("a response without content-length")


async def load(port: int, requests: Iterator[bytes], seconds: float, connections: int) -> dict:
    """Send for some seconds over some connections."""
    latencies_s: list[float] = []
    start = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(
            lambda: Connection(requests, latencies_s, start + seconds), "127.0.0.1", port
        )
        for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.done for _, protocol in opened))
    elapsed_s = time.perf_counter() - start
    latencies_s.sort()
    return {
        "requests_per_s": len(latencies_s) / elapsed_s,
        "p50_ms": 1e3 * latencies_s[len(latencies_s) // 2],
        "p99_ms": 1e3 * latencies_s[int(len(latencies_s) * 0.99)],
        "requests": len(latencies_s),
        "errors": sum(protocol.errors for _, protocol in opened),
    }


def start_servers(folder: str, ports: tuple[int, int]) -> list[subprocess.Popen]:
    """Start the service and the empty application."""
    with open(os.path.join(folder, "empty_app.py"), "w", encoding="utf-8") as file:
        file.write(EMPTY_APP)
    common = [sys.executable, "-m", "uvicorn", "--log-level", "warning", "--no-access-log"]
    environment = {**os.environ, "PERFMODEL_DATABASE": f"sqlite:///{folder}/bench.db"}
    service = [*common, "--factory", "service.serve:app_from_settings", "--port", str(ports[0])]
    empty = [*common, "--app-dir", folder, "empty_app:app", "--port", str(ports[1])]
    started = [subprocess.Popen(service, env=environment), subprocess.Popen(empty)]
    for path, port in (("/v2/health/live", ports[0]), ("/openapi.json", ports[1])):
        _wait_for(f"http://127.0.0.1:{port}{path}")
    return started


def _wait_for(url: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def warm(port: int, requests: list[bytes]) -> float:
    """Ask each request once; returns the seconds it took."""
    start = time.perf_counter()
    for body in requests:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/predict", body, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=120).read()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--port", type=int, default=18_700)
    options = parser.parse_args()
    ports = (options.port, options.port + 1)
    with tempfile.TemporaryDirectory() as folder:
        servers = start_servers(folder, ports)
        try:
            known = bodies((8,), range(1, 2))
            print(f"warm-up: {len(known)} cells in {warm(ports[0], known):.1f} s")
            _measure(options, ports)
        finally:
            for server in servers:
                server.terminate()
                server.wait()


def _measure(options: argparse.Namespace, ports: tuple[int, int]) -> None:
    everything = itertools.cycle(bodies((8,), range(1, 2049)))
    best: dict[str, float] = {}
    for turn in range(options.rounds):
        for name, port in (("empty", ports[1]), ("predict", ports[0])):
            found = asyncio.run(load(port, everything, options.seconds, options.connections))
            best[name] = max(best.get(name, 0.0), found["requests_per_s"])
            print(
                f"round {turn + 1} {name:8} {found['requests_per_s']:8.0f} req/s  "
                f"p50 {found['p50_ms']:6.2f} ms  p99 {found['p99_ms']:6.2f} ms  "
                f"{found['errors']} errors of {found['requests']}"
            )
    print(f"ratio of the best rounds: {best['predict'] / best['empty']:.2f}")


if __name__ == "__main__":
    main()
