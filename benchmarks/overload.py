"""What a service under attack does to those who only ask.

**attack**: five captures that take as long as they may and 400 connections at once, each asking
one thing after the other: three of four known questions, the fourth new jobs and lists. Beside
them one connection asks known questions at a steady pace, and others ask for health, on the port of
the service and on that of health alone. All of it once without the captures, once with them::

    known questions   p99 with the captures within 3 times of that without
    health            p99 under 100 ms, on its own port
    memory            of all processes of the service, bounded by their budgets
    time-outs         none: what cannot be answered is told 429 or 503 with Retry-After

**jobs**: distinct jobs, a hundred thousand of them; memory is flat once the caches are full::

    python benchmarks/overload.py attack --seconds 20
    python benchmarks/overload.py jobs --jobs 100000

Run it with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
from _servers import Server, ratio, resident_bytes, service
from http_throughput import ACCELERATORS, PATH, bodies, questions

ENDLESS, CONNECTIONS = 5, 400
MOST_TIMES, MOST_HEALTH_S, TIMEOUT_S = 3.0, 0.1, 10.0
#: Of the steady caller and of who asks for health, a second.
STEADY_RATE, HEALTH_RATE = 50.0, 20.0
#: What memory may grow by once the caches are full.
MOST_GROWTH = 1.05


@dataclass
class Heard:
    """What some connections were answered."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    without_retry_after: int = 0

    def at(self, share: float) -> float:
        """Return a quantile of how long answers took, seconds; infinite without any."""
        ordered = sorted(self.latencies_s)
        return (
            ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")
        )

    def said(self) -> str:
        """Return what it comes to."""
        counted = ", ".join(f"{n} x {word}" for word, n in sorted(self.statuses.items()))
        return f"p50 {1e3 * self.at(0.5):7.1f} ms  p99 {1e3 * self.at(0.99):7.1f} ms  {counted}"


class Connection:
    """One keep-alive connection; opened again where the server closed it."""

    def __init__(self, port: int, heard: Heard) -> None:
        self._port = port
        self._heard = heard
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> None:
        """Send a request, and note what came of it and how long that took."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                word = await self._converse(request)
        except TimeoutError:
            word = "time-out"
            self.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            word = type(error).__name__
            self.close()
        else:
            if word == "200":
                self._heard.latencies_s.append(time.perf_counter() - began)
        self._heard.statuses[word] += 1

    async def _converse(self, request: bytes) -> str:
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # the server hung up while nothing was asked: any client opens another
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        await reader.readexactly(int(lines.get("content-length", 0)))
        if lines.get("connection") == "close":
            self.close()
        status = head.split()[1]
        if status in ("429", "503") and "retry-after" not in lines:
            self._heard.without_retry_after += 1
        return status

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def written(path: str, body: bytes | None = None) -> bytes:
    """Return a request as it travels."""
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    stated = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + stated).encode() + body


def endless(number: int) -> bytes:
    """Return a question whose capture takes as long as it may: as deep as models may be."""
    config = {"model_type": "bert", "num_hidden_layers": 500, "hidden_size": 768 + 12 * number}
    job = {"hf_config": config, "mode": "training", "batch_size": 4, "accumulation_steps": 4}
    return json.dumps({"job": job, "placement": "A100-SXM4-80GB"}).encode()


def new_jobs() -> Iterator[bytes]:
    """Return questions about jobs that nobody asked about."""
    for size in itertools.count(3, 2):
        job = {"model": "zoo/ncf", "mode": "training", "batch_size": size}
        yield json.dumps({"job": job, "placement": "A100-SXM4-80GB"}).encode()


async def in_turn(port: int, requests: Iterator[bytes], heard: Heard, until: float) -> None:
    """Ask one thing after the other."""
    connection = Connection(port, heard)
    while time.perf_counter() < until:
        before = heard.statuses["503"] + heard.statuses["429"]
        await connection.ask(next(requests))
        if heard.statuses["503"] + heard.statuses["429"] > before:
            await asyncio.sleep(1.0)  # as Retry-After says
    connection.close()


async def steadily(
    port: int, requests: Iterator[bytes], heard: Heard, until: float, rate: float
) -> None:
    """Ask at a constant rate; what is late counts from when it was due."""
    connection = Connection(port, heard)
    due = time.perf_counter()
    while due < until:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await connection.ask(next(requests))
        due = max(due + 1.0 / rate, time.perf_counter() - 1.0)
    connection.close()


async def watch(server: Server, most: list[int], until: float) -> None:
    """Note the most memory that all processes of the service held together."""
    while time.perf_counter() < until:
        held = 0
        for process in server.workers:
            try:
                held += resident_bytes(process)
            except psutil.Error:
                continue
        most[0] = max(most[0], held)
        await asyncio.sleep(0.5)


async def load(server: Server, health_port: int, seconds: float, *, attacked: bool) -> dict:
    """Let all of them ask for some seconds."""
    until = time.perf_counter() + seconds
    names = ("steady", "known", "new", "lists", "health", "health alone", "endless")
    heard = {name: Heard() for name in names}
    known = itertools.cycle([written(PATH, body) for body in questions("repeated")])
    fresh = (written(PATH, body) for body in new_jobs())
    lists = itertools.cycle([written("/v1/jobs?limit=10"), written("/v1/observations?limit=10")])
    health = itertools.cycle([written("/v2/health/live")])
    most = [0]
    tasks = [
        steadily(server.port, known, heard["steady"], until, STEADY_RATE),
        steadily(server.port, health, heard["health"], until, HEALTH_RATE),
        steadily(health_port, health, heard["health alone"], until, HEALTH_RATE),
        watch(server, most, until),
    ]
    if attacked:
        attack = itertools.count()
        tasks += [
            in_turn(server.port, (written(PATH, endless(next(attack))) for _ in itertools.count()),
                    heard["endless"], until)
            for _ in range(ENDLESS)
        ]  # fmt: skip
    for number in range(CONNECTIONS):
        name = "known" if number % 4 else ("new", "lists")[number % 8 == 0]
        requests = {"known": known, "new": fresh, "lists": lists}[name]
        tasks.append(in_turn(server.port, requests, heard[name], until))
    await asyncio.gather(*tasks)
    return {"heard": heard, "memory": most[0]}


def attack(options: argparse.Namespace) -> None:
    """Measure with and without the captures."""
    settings = {"PERFMODEL_HEALTH_PORT": str(options.port + 1), "PERFMODEL_LOG_LEVEL": "error"}
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder, options.port, models=options.models, settings=settings) as server,
    ):
        warm = bodies(name for name in ACCELERATORS for _ in range(10))
        for body in (*warm, *questions("repeated")):
            server.ask(PATH, body)
        found = {}
        for name, attacked in (("without", False), ("with", True)):
            coming = load(server, options.port + 1, options.seconds, attacked=attacked)
            found[name] = asyncio.run(coming)
            print(f"{name} endless captures, {CONNECTIONS} connections, {options.seconds:g} s:")
            for who, heard in found[name]["heard"].items():
                print(f"  {who:13} {heard.said()}")
            print(f"  memory of all processes: {found[name]['memory'] / 2**20:.0f} MiB at most")
    _judge(found)


def _judge(found: dict) -> None:
    quiet, attacked = found["without"]["heard"], found["with"]["heard"]
    for who in ("steady", "known"):
        times = attacked[who].at(0.99) / quiet[who].at(0.99)
        print(
            f"{who}: p99 {times:.2f} times that without ({ratio(times, MOST_TIMES, least=False)})"
        )
    for who in ("health alone", "health"):
        late = attacked[who].at(0.99)
        print(f"{who}: p99 {1e3 * late:.0f} ms ({ratio(late, MOST_HEALTH_S, least=False)})")
    # Who asks for what takes forever gives up at some time, and is nobody's measure.
    everything = [
        heard for each in found.values() for who, heard in each["heard"].items() if who != "endless"
    ]
    lost = sum(n for h in everything for word, n in h.statuses.items() if not word.isdigit())
    unsaid = sum(h.without_retry_after for h in everything)
    print(f"time-outs and lost connections: {lost}; 429 or 503 without Retry-After: {unsaid}")


def jobs(options: argparse.Namespace) -> None:
    """Ask about distinct jobs, and follow the memory; the analytical model answers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder, options.port, models="") as server,
    ):
        held = []
        numbers = itertools.count()
        for part in range(20):
            asyncio.run(_ask_about(server.port, numbers, (part + 1) * options.jobs // 20))
            held.append(resident_bytes(server.process))
            print(f"{(part + 1) * options.jobs // 20:7} jobs: {held[-1] / 2**20:6.0f} MiB")
        growth = held[-1] / held[len(held) * 3 // 4]
        print(
            f"from {3 * options.jobs // 4} jobs on memory grew {growth:.3f} times "
            f"({ratio(growth, MOST_GROWTH, least=False)})"
        )


async def _ask_about(port: int, numbers: Iterator[int], until: int) -> None:
    """Ask about new jobs over a few connections, up to a number."""
    heard = Heard()

    async def one() -> None:
        connection = Connection(port, heard)
        for number in numbers:
            if number >= until:
                break
            versions = {"torch": f"2.9.{number}"}
            job = {"model": "timm/resnet18", "mode": "training", "batch_size": 8}
            question = {"job": {**job, "software": versions}, "placement": "A100-SXM4-80GB"}
            await connection.ask(written(PATH, json.dumps(question).encode()))
        connection.close()

    await asyncio.gather(*(one() for _ in range(4)))
    if set(heard.statuses) - {"200"}:
        print(f"  answered: {dict(heard.statuses)}")


def main() -> None:
    """Measure one or the other, or both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="?", choices=("attack", "jobs", "both"), default="both")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--models", default="models")
    parser.add_argument("--port", type=int, default=18_760)
    options = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    if options.which != "jobs":
        attack(options)
    if options.which != "attack":
        jobs(options)


if __name__ == "__main__":
    main()
