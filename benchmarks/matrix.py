"""Seconds for a matrix of 20,000 cells over HTTP: from nothing, after a restart, and cold.

100 jobs (10 models x 2 modes x 5 batch sizes) on 200 placements (25 accelerators x 8 of a host).
*Cold* means that the graphs of the jobs are known but no cell is: each time on placements that
were never asked about, as a scheduler sends after the cluster has changed. Then again with 10,000
observations of 500 jobs stored, twenty of each::

    python benchmarks/matrix.py
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time

from _servers import Server, ratio, service

COLD_S = 1.0
#: How many times as long it may take where jobs were observed.
MOST_TIMES = 2.0
#: Job types that are observed as well.
NAMES = 400
MODELS = (
    "resnet18", "resnet50", "mobilenetv3_small_100", "efficientnet_b0", "vit_tiny_patch16_224",
    "convnext_tiny", "densenet121", "regnety_008", "deit_small_patch16_224", "mixer_s32_224",
)  # fmt: skip
BATCH_SIZES = (4, 8, 16, 32, 64)


def jobs(models: int) -> list[dict]:
    """Return the jobs of the first few models."""
    return [
        {"model": f"timm/{model}", "mode": mode, "batch_size": batch_size}
        for model in MODELS[:models]
        for mode in ("inference", "training")
        for batch_size in BATCH_SIZES
    ]


def placements(accelerators: list[str], hosts: int) -> list[str]:
    """Return eight placements on each accelerator, over so many hosts."""
    counts = range(1, 9)
    if hosts == 1:
        return [f"{count}x{name}" for name in accelerators for count in counts]
    return [f"{hosts}x({count}x{name})@ib-200g" for name in accelerators for count in counts]


def main() -> None:
    """Ask a service that knows nothing, and one that was restarted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=len(MODELS), help="models; ten jobs each")
    parser.add_argument("--accelerators", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="models")
    parser.add_argument("--port", type=int, default=18_710)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nothing captured", "after a restart"):
            with service(folder, options.port, models=options.models) as server:
                names = _accelerators(server, options.accelerators)
                measure(server, name, options.jobs, placements(names, 1))
                if name == "after a restart":
                    measure(server, "asked again", options.jobs, placements(names, 1))
                    cold = _cold(server, "cold", names, range(options.rounds), options.jobs)
                    store(server, options.jobs, names[:5])
                    again = range(options.rounds, 2 * options.rounds)
                    observed = _cold(server, "cold, observed", names, again, options.jobs)
    print(f"cold, best of {options.rounds}: {ratio(min(cold), COLD_S, least=False)}")
    times = min(observed) / min(cold)
    print(f"observed beside not, best of {options.rounds}: {ratio(times, MOST_TIMES, least=False)}")


def _cold(server: Server, name: str, names: list[str], turns: range, models: int) -> list[float]:
    return [measure(server, name, models, placements(names, 2 + turn)) for turn in turns]


def store(server: Server, models: int, names: list[str]) -> None:
    """Store observations of every job, half as long again as predicted, and of as many names."""
    places = [f"{count}x{name}" for name in names for count in (1, 2, 4, 8)]
    asked = jobs(models)
    matrix = server.ask_json("/v1/matrix", {"jobs": asked, "placements": places})
    seen = [
        {"job": job, "placement": place, "step_time_s": 1.5 * matrix["step_time_s"][row][column]}
        for row, job in enumerate(asked)
        for column, place in enumerate(places)
    ]
    named = [
        {"job": {"job_type": f"script {n}", "mode": "training", "batch_size": 32},
         "placement": place, "step_time_s": 0.1 + 0.001 * n}
        for n in range(NAMES) for place in places
    ]  # fmt: skip
    every = [*seen, *named]
    for start in range(0, len(every), 2_000):
        server.ask_json("/v1/observations", {"observations": every[start : start + 2_000]})
    print(f"stored {len(every)} observations of {len(asked) + NAMES} jobs")


def _accelerators(server: Server, most: int) -> list[str]:
    catalog = server.ask_json("/v1/accelerators")["accelerators"]
    return [a["name"] for a in catalog if a["kind"] == "gpu"][:most]


def measure(server: Server, name: str, models: int, asked: list[str]) -> float:
    """Ask one matrix; returns the seconds until its last byte."""
    content = json.dumps({"jobs": jobs(models), "placements": asked}).encode()
    computed_s, began = server.cpu_s(), time.perf_counter()
    answer = server.ask("/v1/matrix", content)
    took_s = time.perf_counter() - began
    computed_s = server.cpu_s() - computed_s
    matrix = json.loads(answer)
    cells = matrix["jobs"] * matrix["placements"]
    good = sum(row.count("ok") for row in matrix["status"])
    print(
        f"{name:18} {cells} cells, {good} answered, {len(answer)} bytes: {took_s:.2f} s, "
        f"{computed_s:.2f} s of one core"
    )
    return took_s


if __name__ == "__main__":
    main()
