"""Requests per second of ``POST /v1/predict`` beside an empty FastAPI route, in one run.

Two servers with one uvicorn worker each take turns; this process sends over keep-alive
connections, one request at a time on each. The graphs of the jobs are known to the service, and
each job was predicted once on one of each accelerator. Three kinds of question::

    repeated     some hundred cells, over and over
    new          each on a placement that was never asked about: other counts, hosts, networks
    unlike       the same with unlike hosts, whose links are worked out one placement at a time

Run it with nothing else on the machine::

    python benchmarks/http_throughput.py --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Iterator

from _servers import Server, empty, ratio, service

PATH = "/v1/predict"
#: Of the requests of an empty route; of its 99th percentile.
LEAST_SHARE, MOST_TIMES = 0.60, 3.0

MODELS = (
    "resnet18",
    "resnet50",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "vit_tiny_patch16_224",
)
ACCELERATORS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-16GB", "T4", "A10", "L4", "MI300X")
NETWORKS = ("ib-400g", "ib-100g", "eth-25g", "eth-100g")


def jobs() -> list[dict]:
    """Return the jobs that the service knows."""
    return [
        {"model": f"timm/{model}", "mode": mode, "batch_size": 8}
        for model in MODELS
        for mode in ("inference", "training")
    ]


def bodies(placements: Iterator[str]) -> list[bytes]:
    """Return a request for each placement, the jobs in turn."""
    return [
        json.dumps({"job": job, "placement": placement}).encode()
        for job, placement in zip(itertools.cycle(jobs()), placements, strict=False)
    ]


def questions(kind: str) -> list[bytes]:
    """Return the requests of one kind; but for those that repeat, no two placements are equal."""
    if kind == "repeated":
        placements = [f"{count}x{name}" for count in (1, 2, 4, 8) for name in ACCELERATORS]
        return bodies(itertools.chain.from_iterable([one] * len(jobs()) for one in placements))
    if kind == "new":
        return bodies(
            f"{hosts}x({count}x{name})@{network}"
            for hosts in range(2, 200)
            for network in NETWORKS
            for count in (1, 2, 3, 4, 5, 6, 7, 8)
            for name in ACCELERATORS
        )
    return bodies(
        f"{hosts}x({count}x{one})+{count}x{other}@{network}"
        for hosts in range(1, 60)
        for network in NETWORKS
        for count in (1, 2, 4, 8)
        for one, other in itertools.permutations(ACCELERATORS, 2)
    )


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
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
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


def main() -> None:
    """Measure each kind of question and the empty route in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--models", default="models")
    parser.add_argument("--port", type=int, default=18_700)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder, options.port, models=options.models) as answering,
        empty(folder, options.port + 1, PATH) as bare,
    ):
        began = time.perf_counter()
        known = bodies(name for name in ACCELERATORS for _ in jobs())
        for body in (*known, *questions("repeated")):
            answering.ask(PATH, body)
        print(f"warm-up: {len(known)} cells in {time.perf_counter() - began:.1f} s")
        _measure(options, answering, bare)


def _measure(options: argparse.Namespace, answering: Server, bare: Server) -> None:
    asked = {kind: itertools.cycle(questions(kind)) for kind in ("repeated", "new", "unlike")}
    cases = [("empty", bare, asked["repeated"])]
    cases += [(kind, answering, requests) for kind, requests in asked.items()]
    found: dict[str, list[dict]] = {name: [] for name, _, _ in cases}
    for turn, (name, server, requests) in itertools.product(range(options.rounds), cases):
        computed_s = server.cpu_s()
        one = asyncio.run(load(server.port, requests, options.seconds, options.connections))
        one["cpu_us"] = 1e6 * (server.cpu_s() - computed_s) / one["requests"]
        found[name].append(one)
        print(
            f"round {turn + 1} {name:9} {one['requests_per_s']:8.0f} req/s  "
            f"p50 {one['p50_ms']:6.2f} ms  p99 {one['p99_ms']:6.2f} ms  "
            f"{one['cpu_us']:4.0f} us of one core  {one['errors']} errors of {one['requests']}"
        )
    rate = {name: max(r["requests_per_s"] for r in rounds) for name, rounds in found.items()}
    late = {name: min(r["p99_ms"] for r in rounds) for name, rounds in found.items()}
    cost = {name: min(r["cpu_us"] for r in rounds) for name, rounds in found.items()}
    for name in asked:
        share, times = rate[name] / rate["empty"], late[name] / late["empty"]
        print(
            f"{name:9} {share:.2f} of the empty route's requests/s "
            f"({ratio(share, LEAST_SHARE, least=True)}), p99 {times:.1f} times its "
            f"({ratio(times, MOST_TIMES, least=False)}), "
            f"{cost[name] / cost['empty']:.2f} times its work"
        )


if __name__ == "__main__":
    main()
