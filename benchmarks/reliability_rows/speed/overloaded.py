"""Four times as many questions as can be answered, at a constant pace.

A question is a matrix of ten jobs on five ever-new placements, which takes a thread some
milliseconds. First callers that wait for their answers show how many can be answered; then
four times as many come, whatever became of those before.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Iterator

import psutil
from _servers import Server, resident_bytes, service
from http_throughput import PATH, jobs, questions
from overload import Connection, Heard, in_turn, steadily, written
from reliability_rows.row import Found
from stored_observations import ACCELERATORS, placements

PORT = 18_885
TIMES, LEAST_SHARE, MOST_HEALTH_S = 4.0, 0.8, 0.1
#: Memory may grow by this much under it.
MOST_GROWTH = 1.5
_CALLERS, _PLACES, _HEALTH_RATE = 8, 5, 20.0


def measure(count: int) -> Found:
    """Ask for so many seconds each time."""
    settings = {"PERFMODEL_HEALTH_PORT": str(PORT + 1), "PERFMODEL_LOG_LEVEL": "error"}
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder, PORT, settings=settings) as server,
    ):
        server.ask_json("/v1/matrix", {"jobs": jobs(), "placements": list(ACCELERATORS)})
        for body in questions("repeated"):
            server.ask(PATH, body)
        return asyncio.run(_measured(server, count))


async def _measured(server: Server, seconds: int) -> Found:
    asked = _matrices()
    loop = asyncio.get_running_loop()
    most = Heard()
    until = _now() + seconds
    await asyncio.gather(*(in_turn(server.port, asked, most, until) for _ in range(_CALLERS)))
    rate, before = len(most.latencies_s) / seconds, _held(server)
    heard = {name: Heard() for name in ("questions", "health", "health alone")}
    began = _now()
    until = began + seconds
    health = itertools.cycle([written("/v2/health/live")])
    beside = [
        loop.create_task(steadily(port, health, heard[name], until, _HEALTH_RATE))
        for name, port in (("health", server.port), ("health alone", server.port + 1))
    ]
    await _arriving(server.port, asked, heard["questions"], TIMES * rate, until)
    took_s = _now() - began  # those that waited at the end are answered by now
    await asyncio.gather(*beside)
    return _judged(rate, heard, took_s, _held(server) / before)


def _now() -> float:
    return time.perf_counter()


def _held(server: Server) -> int:
    held = 0
    for process in server.workers:
        try:
            held += resident_bytes(process)
        except psutil.Error:
            continue
    return held


def _matrices() -> Iterator[bytes]:
    new = placements()
    while True:
        places = list(itertools.islice(new, _PLACES))
        yield written("/v1/matrix", json.dumps({"jobs": jobs(), "placements": places}).encode())


async def _arriving(
    port: int, asked: Iterator[bytes], heard: Heard, rate: float, until: float
) -> None:
    """Send at a constant pace, each over a connection that is free or a new one."""
    free: list[Connection] = []
    under_way: set[asyncio.Task[None]] = set()

    async def one(request: bytes) -> None:
        connection = free.pop() if free else Connection(port, heard)
        await connection.ask(request)
        free.append(connection)

    due = _now()
    while due < until:
        await asyncio.sleep(max(0.0, due - _now()))
        task = asyncio.create_task(one(next(asked)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        due += 1.0 / rate
    await asyncio.gather(*under_way)
    for connection in free:
        connection.close()


def _judged(rate: float, heard: dict[str, Heard], took_s: float, growth: float) -> Found:
    questions = heard["questions"]
    asked = questions.statuses.total()
    share = questions.statuses["200"] / took_s / rate
    refused = questions.statuses["429"] + questions.statuses["503"]
    other = asked - questions.statuses["200"] - refused
    late = {name: heard[name].at(0.99) for name in ("health alone", "health")}
    measured = (
        f"{rate:.0f} questions/s at most; of {asked:,} at {TIMES:g} times that "
        f"{100 * share:.0f} % of the maximum answered (p99 {1e3 * questions.at(0.99):.0f} ms), "
        f"{refused} told 429 or 503, {questions.without_retry_after} of them without Retry-After, "
        f"{other} otherwise; health p99 {1e3 * late['health']:.0f} ms, on its own port "
        f"{1e3 * late['health alone']:.0f} ms; memory {growth:.2f} times"
    )
    held = (
        share >= LEAST_SHARE and not other and not questions.without_retry_after
        and max(late.values()) <= MOST_HEALTH_S and growth <= MOST_GROWTH
    )  # fmt: skip
    return Found(measured=measured, held=held)
