"""Observations per second that the service acknowledges, as a ratio to what the disk can sync.

A service with one worker and an SQLite file takes observations of a job without a graph and of one
with, from callers that each send one request at a time and wait for its answer. An acknowledged
observation is on disk; as callers that wait together share a transaction, there are more of them
than the disk takes syncs. What the service computes for each is in CPU seconds, so that other work
on the machine does not count. The disk is measured before and after, in the same folder: 4 KiB
appended and synced, one after the other::

    python benchmarks/observations.py --seconds 5
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import psutil

#: Observations a second from callers that come together; one alone waits for each sync.
LIMIT_PER_S = 500.0
#: Callers at the same time, and observations of each request.
LOADS = ((1, 1), (32, 1), (4, 100))
START = (
    "import sys; from service.serve import serve; serve(port=0, models='', database=sys.argv[1])"
)
JOB = {"job_type": "benchmark", "mode": "training", "batch_size": 64}
PLACEMENTS = ("T4", "8xT4", "2x(8xA100-SXM4-80GB)@ib-400g", "16xH100-SXM5-80GB")


def syncs_per_s(folder: Path, seconds: float = 1.0) -> float:
    """Return how often 4 KiB can be appended and synced."""
    count = 0
    with open(folder / "synced", "wb", buffering=0) as file:
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            file.write(bytes(4096))
            os.fsync(file.fileno())
            count += 1
        return count / (time.perf_counter() - begin)


class Caller(threading.Thread):
    """Sends observations over one connection until the time is over."""

    def __init__(self, address: str, keys: itertools.count[int], size: int, until: float) -> None:
        super().__init__()
        self._address = address
        self._keys = keys
        self._size = size
        self._until = until
        self.accepted = 0
        self.latencies_s: list[float] = []

    def run(self) -> None:
        """Send."""
        connection = http.client.HTTPConnection(self._address, timeout=60)
        while time.perf_counter() < self._until:
            body = json.dumps([observation(next(self._keys)) for _ in range(self._size)])
            begin = time.perf_counter()
            connection.request(
                "POST", "/v1/observations", body, {"Content-Type": "application/json"}
            )
            answer = json.loads(connection.getresponse().read())
            self.latencies_s.append(time.perf_counter() - begin)
            if answer["accepted"] != self._size:
                raise RuntimeError(f"not all of them were accepted: {answer}")
            self.accepted += self._size
        connection.close()


def observation(key: int) -> dict[str, object]:
    """Return an observation that no other equals."""
    return {
        "job": JOB,
        "placement": PLACEMENTS[key % len(PLACEMENTS)],
        "step_time_s": 0.1 + key * 1e-9,
        "sync_time_s": 0.01,
        "key": f"step-{key}",
    }


def measure(address: str, keys: itertools.count[int], callers: int, size: int, seconds: float):
    """Return accepted observations a second, and the latencies of their requests in order."""
    begin = time.perf_counter()
    threads = [Caller(address, keys, size, begin + seconds) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - begin
    latencies_s = sorted(latency for thread in threads for latency in thread.latencies_s)
    return sum(thread.accepted for thread in threads) / took_s, latencies_s


def cpu_s(process: psutil.Process) -> float:
    """Return the seconds that a process has computed."""
    times = process.cpu_times()
    return float(times.user + times.system)


def stored(url: str) -> int:
    """Return how many observations are in the database."""
    from sqlalchemy import func, select

    from perfmodel.store.sql.connections import Connections
    from perfmodel.store.sql.tables import OBSERVATIONS

    with Connections(url).reading() as connection:
        return int(connection.execute(select(func.count()).select_from(OBSERVATIONS)).scalar_one())


def main() -> None:
    """Start a service, and print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/state.db"
        process = subprocess.Popen(
            [sys.executable, "-c", START, url], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        address = process.stdout.readline().split()[3].removeprefix("http://")
        try:
            acknowledged = _measure_all(
                folder, address, psutil.Process(process.pid), options.seconds
            )
        finally:
            process.kill()
            process.wait()
        print(f"{acknowledged} acknowledged, {stored(url)} stored after the service was killed")


def _measure_all(folder: Path, address: str, server: psutil.Process, seconds: float) -> int:
    keys = itertools.count()
    begin = syncs_per_s(folder)
    for callers, size in LOADS:
        computed_s = cpu_s(server)
        rate, latencies_s = measure(address, keys, callers, size, seconds)
        each_s = (cpu_s(server) - computed_s) / (len(latencies_s) * size)
        syncs = (begin + (begin := syncs_per_s(folder))) / 2
        median_s = latencies_s[len(latencies_s) // 2]
        aim = "" if callers == 1 else f", {rate / LIMIT_PER_S:.1f} times the aim"
        print(
            f"{callers:3d} callers x {size:3d}: {rate:6.0f} observations/s{aim}; "
            f"{rate / syncs:.2f} times the {syncs:.0f} syncs/s of the disk; median of a request "
            f"{1e3 * median_s:.1f} ms, {1e3 * each_s:.2f} ms of one core for each observation"
        )
    urllib.request.urlopen(f"http://{address}/v2/health/live", timeout=10).read()
    return next(keys)


if __name__ == "__main__":
    main()
