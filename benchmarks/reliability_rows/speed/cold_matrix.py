"""A matrix of 300 jobs on 67 placements that nobody asked about; the graphs are known."""

from __future__ import annotations

import itertools
import json
import tempfile
import time

from _servers import service
from matrix import MODELS
from reliability_rows.row import Found
from stored_observations import ACCELERATORS, PLACEMENTS, placements

PORT = 18_875
JOBS, MOST_S = 300, 1.0
_BATCHES = (4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)


def measure(count: int) -> Found:
    """Ask so many matrices, each on other placements."""
    new, took = placements(), []
    with tempfile.TemporaryDirectory() as folder, service(folder, PORT) as server:
        asked = jobs()
        began = time.perf_counter()
        server.ask_json("/v1/matrix", {"jobs": asked, "placements": list(ACCELERATORS)})
        first_s = time.perf_counter() - began
        for _ in range(count):
            places = list(itertools.islice(new, PLACEMENTS))
            body = json.dumps({"jobs": asked, "placements": places}).encode()
            began = time.perf_counter()
            answer = server.ask("/v1/matrix", body)
            took.append(time.perf_counter() - began)
            assert answer.count(b'"ok"') == JOBS * PLACEMENTS, "every cell is answered"
    measured = (
        f"{JOBS} x {PLACEMENTS}: best of {count} {min(took):.2f} s, worst {max(took):.2f} s; with "
        f"nothing captured, on {len(ACCELERATORS)} placements, {first_s:.1f} s"
    )
    return Found(measured=measured, held=min(took) <= MOST_S)


def jobs() -> list[dict]:
    """Return 300 jobs: ten models, two modes, fifteen batches."""
    return [
        {"model": f"timm/{model}", "mode": mode, "batch_size": size}
        for model in MODELS
        for mode in ("inference", "training")
        for size in _BATCHES
    ]
