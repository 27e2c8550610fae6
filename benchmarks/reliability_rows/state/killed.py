"""Processes that store observations are killed: the part of a service that does, and all of it."""

from __future__ import annotations

import json
import random
import signal
import tempfile
import threading
import urllib.request
from pathlib import Path

from _servers import Server, service
from clean_forks import CleanForks
from made_up_observations import kept_keys
from migrated import migrated_sqlite
from reliability_rows.row import Found
from reliability_rows.state.asking import OBSERVED, is_whole

PORT = 18_840
#: Of so many kills one is of a whole service, which takes seconds to start.
_SERVICES = 10
#: How long each of them writes before, seconds.
_LIVES_S = (0.02, 0.4)
_CALLERS = 4


def measure(count: int) -> Found:
    """Kill so often."""
    chance = random.Random(19)
    services = max(1, count // _SERVICES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = _writers(folder / "alone", count - services, chance)
        whole = _services(folder / "service", services, chance)
    acknowledged, lost, damaged = (a + b for a, b in zip(alone, whole, strict=True))
    measured = (
        f"{count} kills, {services} of them of a whole service over HTTP: {acknowledged:,} "
        f"observations acknowledged, {lost} of them lost; the database damaged {damaged} times"
    )
    held = not lost and not damaged and acknowledged >= count
    return Found(measured=measured, held=held)


def _writers(folder: Path, count: int, chance: random.Random) -> tuple[int, int, int]:
    """Kill writers; returns observations acknowledged, those lost, and damaged databases."""
    folder.mkdir()
    url, noted = migrated_sqlite(folder), folder / "acknowledged"
    lost = damaged = 0
    with CleanForks(Path(__file__).with_name("killed_writer.py")) as forks:
        for turn in range(count):
            lives_s = chance.uniform(*_LIVES_S)
            if forks.run(url, noted, f"{turn}", lives_s) != -signal.SIGKILL:
                raise RuntimeError("a writer ended by itself")
            damaged += not is_whole(folder / "state.db")
    acknowledged = set(noted.read_text().split())
    lost = len(acknowledged - kept_keys(url))
    return len(acknowledged), lost, damaged


def _services(folder: Path, count: int, chance: random.Random) -> tuple[int, int, int]:
    """Kill whole services, likewise."""
    folder.mkdir()
    acknowledged: set[str] = set()
    damaged = 0
    for turn in range(count):
        with service(folder, PORT, models="") as server:
            callers = [
                threading.Thread(target=_send, args=(server, f"{turn}-{n}", acknowledged))
                for n in range(_CALLERS)
            ]
            for caller in callers:
                caller.start()
            threading.Event().wait(chance.uniform(0.2, 1.0))
            server.process.kill()
            for caller in callers:
                caller.join()
        damaged += not is_whole(folder / "bench.db")
    lost = len(acknowledged - kept_keys(f"sqlite:///{folder}/bench.db"))
    return len(acknowledged), lost, damaged


def _send(server: Server, name: str, acknowledged: set[str]) -> None:
    """Send observations until nobody answers."""
    url = f"http://127.0.0.1:{server.port}/v1/observations"
    for number in range(1_000_000):
        key = f"{name}-{number}"
        seen = {"job": OBSERVED, "placement": "T4", "step_time_s": 0.5, "key": key}
        body = json.dumps({"observations": [seen]}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                taken = json.load(answer)
        except OSError:
            return
        if taken["accepted"] == 1:
            acknowledged.add(key)
