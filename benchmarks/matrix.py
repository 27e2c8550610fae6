"""Seconds for a matrix of 10,000 cells over HTTP: from nothing, after a restart, and warm.

100 jobs (10 models x 2 modes x 5 batch sizes) on 100 placements (25 accelerators x 4 counts)::

    python benchmarks/matrix.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

MODELS = (
    "resnet18", "resnet50", "mobilenetv3_small_100", "efficientnet_b0", "vit_tiny_patch16_224",
    "convnext_tiny", "densenet121", "regnety_008", "deit_small_patch16_224", "mixer_s32_224",
)  # fmt: skip


def body(placements: list[str]) -> bytes:
    """Return the request."""
    jobs = [
        {"model": f"timm/{model}", "mode": mode, "batch_size": batch_size}
        for model in MODELS
        for mode in ("inference", "training")
        for batch_size in (4, 8, 16, 32, 64)
    ]
    return json.dumps({"jobs": jobs, "placements": placements}).encode()


def ask(port: int, path: str, content: bytes | None = None) -> bytes:
    """Send one request to the local service."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        answer: bytes = response.read()
    return answer


def start(port: int, database: str, models: str) -> tuple[subprocess.Popen[bytes], float]:
    """Start the service; return it with the seconds until it was ready."""
    command = [sys.executable, "-m", "uvicorn", "--factory", "service.serve:app_from_settings"]
    environment = {**os.environ, "PERFMODEL_DATABASE": database, "PERFMODEL_MODELS": models}
    began = time.perf_counter()
    service = subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"], env=environment
    )
    while True:
        try:
            ask(port, "/v2/health/ready")
            return service, time.perf_counter() - began
        except OSError:
            if service.poll() is not None or time.perf_counter() - began > 60:
                raise
            time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=18_710)
    parser.add_argument("--models", default="models")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nothing captured", "after a restart"):
            service, ready_s = start(options.port, f"sqlite:///{folder}/bench.db", options.models)
            try:
                print(f"ready in {ready_s:.2f} s")
                measure(options.port, (name, "warm") if "restart" in name else (name,))
            finally:
                service.terminate()
                service.wait()


def measure(port: int, names: tuple[str, ...]) -> None:
    """Ask the matrix once under each name."""
    catalog = json.loads(ask(port, "/v1/accelerators"))["accelerators"]
    accelerators = [a["name"] for a in catalog if a["kind"] == "gpu"][:25]
    content = body([f"{count}x{name}" for name in accelerators for count in (1, 2, 4, 8)])
    for name in names:
        began = time.perf_counter()
        answer = ask(port, "/v1/matrix", content)
        took_s = time.perf_counter() - began
        matrix = json.loads(answer)
        cells = matrix["jobs"] * matrix["placements"]
        good = sum(row.count("ok") for row in matrix["status"])
        print(f"{name:18} {cells} cells, {good} answered, {len(answer)} bytes: {took_s:.2f} s")


if __name__ == "__main__":
    main()
