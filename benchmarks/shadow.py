"""Latency of ``POST /v1/predict`` of known graphs beside a shadow that answers what was asked.

The same questions at the same rate, three times: no version is a shadow, one is compared, none
again. Run it with nothing else on the machine::

    python benchmarks/shadow.py
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _servers import Server, service

MODELS = ("resnet18", "resnet50", "mobilenetv3_small_100", "vit_tiny_patch16_224")
BATCHES = (8, 16, 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="models")
    parser.add_argument("--rate", type=float, default=500.0, help="questions a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each run")
    parser.add_argument("--port", type=int, default=18_730)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copied, shadow = _two_versions(Path(options.models), Path(folder) / "models")
        settings = {"PERFMODEL_SHADOW_POLL_S": "0.5"}
        with service(folder, options.port, models=str(copied), settings=settings) as server:
            questions = _asked(server)
            _measure(server, "no shadow", questions, options)
            server.ask(f"/v1/models/{shadow}/shadow", b"")
            first = _wait(server, shadow, lambda found: found["compared_at"] is not None)
            _measure(server, "a shadow compared", questions, options)
            second = server.ask_json(f"/v1/models/{shadow}/shadow")
            compared = first["waiting"] - second["waiting"]
            print(f"  the shadow meanwhile compared {compared} questions: {second['stage']}")
            report = _wait(server, shadow, lambda found: found["stage"] == "done")
            _measure(server, "no shadow again", questions, options)
        print(f"compared: {report['groups'][0]['asked']} questions")


def _wait(server: Server, shadow: str, until: Callable[[dict], bool]) -> dict:
    while not until(report := server.ask_json(f"/v1/models/{shadow}/shadow")):
        time.sleep(0.5)
    return report


def _two_versions(models: Path, copied: Path) -> tuple[Path, str]:
    """Copy a version twice; returns the folder, and which of the two is to be the shadow."""
    version = max((models / "default").iterdir())
    for name in (version.name, f"{version.name}.2"):
        shutil.copytree(version, copied / "default" / name)
    return copied, f"default/{version.name}"


def _asked(server: Server) -> list[bytes]:
    """Ask about many cells once; the service then knows them, and keeps them as asked."""
    catalogue = server.ask_json("/v1/accelerators")["accelerators"]
    gpus = [device["name"] for device in catalogue if device["kind"] == "gpu"][:60]
    questions = [
        json.dumps(
            {
                "job": {"model": f"timm/{model}", "mode": mode, "batch_size": batch},
                "placement": gpu,
            }
        ).encode()
        for model in MODELS
        for mode in ("inference", "training")
        for batch in BATCHES
        for gpu in gpus
    ]
    for body in questions:
        server.ask("/v1/predict", body)
    return questions


def _measure(
    server: Server, name: str, questions: list[bytes], options: argparse.Namespace
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    latencies_ms = []
    began, cpu_s = time.perf_counter(), server.process.cpu_times()
    for position in range(int(options.rate * options.seconds)):
        time.sleep(max(0.0, began + position / options.rate - time.perf_counter()))
        asked = time.perf_counter()
        body = questions[position % len(questions)]
        connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        latencies_ms.append((time.perf_counter() - asked) * 1e3)
    spent = server.process.cpu_times()
    used_s = spent.user + spent.system - cpu_s.user - cpu_s.system
    latencies_ms.sort()
    p50, p99 = (latencies_ms[int(len(latencies_ms) * share)] for share in (0.5, 0.99))
    print(
        f"{name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms; the worker used "
        f"{used_s / len(latencies_ms) * 1e6:.0f} us of a core a question"
    )


if __name__ == "__main__":
    main()
