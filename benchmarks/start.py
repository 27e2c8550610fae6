"""Seconds from the start of the service to its first answer, and the memory of a worker.

Memory is read when the service is ready, and again after it has captured and answered jobs. What a
worker has for itself is less than what it touches: code and what it was forked with are shared.
Run it with nothing else on the machine::

    python benchmarks/start.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import psutil
from _servers import Server, own_bytes, ratio, resident_bytes, service

READY_S = 5.0
MEMORY_BYTES = 600e6
MODELS = (
    "resnet18",
    "resnet50",
    "vit_tiny_patch16_224",
    "efficientnet_b0",
    "mobilenetv3_small_100",
)
PLACEMENTS = ("A100-SXM4-80GB", "8xH100-SXM5-80GB", "T4", "2x(4xV100-SXM2-16GB)@ib-100g")


def main() -> None:
    """Start it some times and print what that takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=len(MODELS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--models", default="models")
    parser.add_argument("--port", type=int, default=18_730)
    options = parser.parse_args()
    ready = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.repeats):
            with service(folder, options.port, models=options.models) as server:
                ready.append(server.ready_s)
                _say(
                    f"start {turn + 1}: ready in {server.ready_s:.2f} s "
                    f"({server.cpu_s():.2f} s of one core)",
                    server.process,
                )
                if turn == options.repeats - 1:
                    _answer(server, options.jobs)
                    _say("after answering", server.process)
                    most = resident_bytes(server.process)
        print(f"start to ready: {ratio(min(ready), READY_S, least=False)}")
        print(f"memory of one worker: {ratio(most, MEMORY_BYTES, least=False)}")
        _several(folder, options)


def _several(folder: str, options: argparse.Namespace) -> None:
    if options.workers < 2:
        return
    with service(
        Path(folder), options.port, models=options.models, workers=options.workers
    ) as server:
        # The first child is the tracker of what they share.
        for number, worker in enumerate(server.process.children()[1:]):
            _say(f"worker {number + 1} of {options.workers}", worker)


def _answer(server: Server, jobs: int) -> None:
    for model in MODELS[:jobs]:
        job = {"model": f"timm/{model}", "mode": "training", "batch_size": 8}
        server.ask_json("/v1/matrix", {"jobs": [job], "placements": list(PLACEMENTS)})


def _say(what: str, process: psutil.Process) -> None:
    print(
        f"{what}: {resident_bytes(process) / 1e6:.0f} MB resident, "
        f"{own_bytes(process) / 1e6:.0f} MB its own"
    )


if __name__ == "__main__":
    main()
