"""Latency of ``POST /v1/predict`` with ``deadline_ms`` where the prediction is not made yet.

The graphs are known, each cell is new: every answer is the analytical model's, while the full ones
are worked on in the background of the same process. Run it with nothing else on the machine::

    python benchmarks/deadlines.py --rate 50
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import time
from collections import Counter

from _servers import Server, ratio, service

MODELS = (
    "resnet18",
    "resnet50",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "vit_tiny_patch16_224",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deadline-ms", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=50.0, help="questions a second")
    parser.add_argument("--port", type=int, default=18_720)
    options = parser.parse_args()
    jobs = [
        {"model": f"timm/{model}", "mode": mode, "batch_size": 8}
        for model in MODELS
        for mode in ("inference", "training")
    ]
    with tempfile.TemporaryDirectory() as folder, service(folder, options.port) as server:
        for job in jobs:
            server.ask_json("/v1/jobs", {"job": job})
        gpus = [
            device["name"]
            for device in server.ask_json("/v1/accelerators")["accelerators"]
            if device["kind"] == "gpu"
        ]
        questions = [
            {"job": job, "placement": gpu, "deadline_ms": options.deadline_ms}
            for gpu in gpus
            for job in jobs
        ]
        for name in ("new cells", "the same again"):
            _measure(server, name, questions, options)
            time.sleep(1.0)


def _measure(server: Server, name: str, questions: list[dict], options: argparse.Namespace) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    latencies_ms, bases = [], Counter[str]()
    began = time.perf_counter()
    for position, question in enumerate(questions):
        time.sleep(max(0.0, began + position / options.rate - time.perf_counter()))
        asked = time.perf_counter()
        body = json.dumps(question)
        connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        latencies_ms.append((time.perf_counter() - asked) * 1e3)
        bases[answer["basis"] if response.status == 200 else str(response.status)] += 1
    latencies_ms.sort()
    p50, p99 = (latencies_ms[int(len(latencies_ms) * share)] for share in (0.5, 0.99))
    print(
        f"{name}: {len(questions)} questions, p50 {p50:.2f} ms, p99 {p99:.2f} ms "
        f"({ratio(p99, options.deadline_ms, least=False)}); {dict(bases)}"
    )


if __name__ == "__main__":
    main()
