"""``POST /v1/predict`` with distinct bodies: cells asked before, and ever-new ones.

Once on a service that knows no observation, once on one with 10,000 stored observations of 500
jobs, which correct every answer. The promise is of distinct bodies: the new ones count.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import stored_observations as stored
from _servers import Server, service
from http_throughput import ACCELERATORS, PATH, bodies, jobs, questions
from reliability_rows.row import Found
from reliability_rows.speed.wrk import Load, send

PORT = 18_870
LEAST_PER_S, MOST_P99_MS = 3_000.0, 10.0
#: As many as keep a worker busy; more only wait for one another.
CONNECTIONS = 16
ROUNDS = 3
#: More bodies than are sent.
_BODIES = 100_000


def measure(count: int) -> Found:
    """Send for so many seconds each time."""
    found: dict[str, Load] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plain").mkdir()
        with service(folder / "plain", PORT) as server:
            repeated, new = questions("repeated"), questions("new")
            for body in (*bodies(name for name in ACCELERATORS for _ in jobs()), *repeated):
                server.ask(PATH, body)
            found["the same cells"] = _best(folder, itertools.repeat(repeated), count)
            found["new cells"] = _best(folder, _parts(new), count)
        (folder / "observed").mkdir()
        with service(folder / "observed", PORT, models="") as server:
            total = _observed(server)
            asked = [*itertools.islice(_observed_bodies(), _BODIES)]
            found[f"new cells, {total:,} observations"] = _best(folder, _parts(asked), count)
    measured = "; ".join(f"{name}: {one.said()}" for name, one in found.items())
    held = all(
        one.requests_per_s >= LEAST_PER_S and one.p99_ms <= MOST_P99_MS and not one.errors
        for one in found.values()
    )
    return Found(measured=f"best of {ROUNDS} rounds. {measured}", held=held)


def _best(folder: Path, rounds: Iterator[list[bytes]], seconds: int) -> Load:
    loads = [
        send(folder, PORT, asked, seconds=seconds, connections=CONNECTIONS)
        for asked in itertools.islice(rounds, ROUNDS)
    ]
    return max(loads, key=lambda one: (not one.errors, one.requests_per_s))


def _parts(asked: list[bytes]) -> Iterator[list[bytes]]:
    """Give each round questions of its own."""
    size = len(asked) // ROUNDS
    return (asked[start : start + size] for start in range(0, ROUNDS * size, size))


def _observed(server: Server) -> int:
    total = stored.store(server)
    for body in _at_once(["T4"] * stored.JOBS):
        server.ask(PATH, body)
    server.ask_json("/v1/matrix", {"jobs": stored.jobs()[: stored.JOBS], "placements": ["T4"]})
    alone = {"jobs": stored.jobs()[: stored.JOBS], "placements": list(stored.ACCELERATORS)}
    server.ask_json("/v1/matrix", alone)
    return total


def _observed_bodies() -> Iterator[bytes]:
    return _at_once(stored.placements())


def _at_once(places) -> Iterator[bytes]:
    asked = itertools.cycle(stored.jobs()[: stored.JOBS])
    for job, place in zip(asked, places, strict=False):
        yield json.dumps({"job": job, "placement": place}).encode()
