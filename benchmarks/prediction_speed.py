"""Seconds to load the joint predictor, and to answer new and known graphs on one core.

python benchmarks/prediction_speed.py --models models --device A100-SXM4-80GB

Capture is excluded: a new graph is one that was just read, whose sketch has to be made before it
can be answered. A known one was answered before and is remembered. Each figure is a median, and
stands beside the limit that it is held against.
"""

from __future__ import annotations

import os

# Before numpy and torch are loaded: the limits hold on one core.
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import dataclasses
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOAD_LIMIT_S = 3.0
NEW_LIMIT_S = 0.05
KNOWN_LIMIT_S = 0.001
#: Jobs whose graphs grow from some 40 to some 10,000 nodes.
JOBS: tuple[dict[str, Any], ...] = (
    {"model": "timm/resnet18", "mode": "inference", "batch_size": 32},
    {"model": "timm/resnet50", "mode": "training", "batch_size": 64, "precision": "amp_fp16"},
    {"model": "timm/vit_base_patch16_224", "mode": "training", "batch_size": 64},
    {"model": "timm/efficientnet_b4", "mode": "training", "batch_size": 32},
    {"model": "zoo/bert-large-squad", "mode": "training", "batch_size": 8},
    {"model": "timm/swin_base_patch4_window7_224", "mode": "training", "batch_size": 32},
    {"model": "timm/hrnet_w48", "mode": "training", "batch_size": 32},
)
#: Run in a fresh process: what it prints is the seconds of the imports and those of the loading.
LOAD = """
import sys, time
begin = time.perf_counter()
import torch, xgboost
from perfmodel.predictors import joint_store, serving
imported = time.perf_counter()
torch.set_num_threads(1)
serving.ServingModel.load(__import__("pathlib").Path(sys.argv[1]))
print(imported - begin, time.perf_counter() - imported)
"""


def seconds(work: Callable[[], Any]) -> float:
    """Return the wall time of some work."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def joint_version(models: Path, name: str) -> Path | None:
    """Return the folder of the newest version, or nothing where it holds no joint predictor."""
    from perfmodel.errors import PerfModelError
    from perfmodel.store.artifacts import latest

    try:
        artifact = latest(models, name)
    except PerfModelError as error:
        print(error)
        return None
    if "joint" not in artifact.manifest:
        print(f"{artifact.name} has no joint predictor; train one with perfmodel train --data.")
        return None
    return artifact.folder


def measure_load(folder: Path, runs: int) -> None:
    """Print the time to load a version in fresh processes."""
    found = []
    for _ in range(runs):
        run = subprocess.run(
            [sys.executable, "-c", LOAD, str(folder)], check=True, capture_output=True, text=True
        )
        found.append([float(word) for word in run.stdout.split()])
    imports_s, load_s = (statistics.median(column) for column in zip(*found, strict=True))
    print(
        f"load {load_s:.2f} s, {load_s / LOAD_LIMIT_S:.2f} of the limit of {LOAD_LIMIT_S:.0f} s "
        f"(imports of the libraries before it: {imports_s:.2f} s)"
    )


def measure_job(model: Any, fields: dict[str, Any], device: Any, repeats: int) -> list[float]:
    """Time the answers for one job; return the nodes, the rows of its sketch and the medians."""
    from perfmodel.capture.torch import capture
    from perfmodel.features.sketch import step_sketch
    from perfmodel.graph.workload import Workload
    from perfmodel.requests import parse_job
    from perfmodel.zoo.resolve import build_program

    job = parse_job(fields)
    graph = capture(build_program(job))
    sketching, answering, again = [], [], []
    for turn in range(1 + repeats):
        # A copy has nothing kept with it. The last digit of the version makes it another
        # question that takes the same work.
        workload = Workload(
            graph=dataclasses.replace(graph),
            accelerator=device,
            mode=job.mode,
            batch_size=job.batch_size,
            precision=job.precision,
            software={"torch": f"2.4.{turn}"},
        )
        sketching.append(seconds(lambda w=workload: step_sketch(w.graph)))
        answering.append(seconds(lambda w=workload: model.predict([w])))
        again.append(seconds(lambda w=workload: model.predict([w])))
    medians = [statistics.median(times[1:]) for times in (sketching, answering, again)]
    return [len(graph.nodes), len(step_sketch(graph).count), *medians]


def measure_answers(folder: Path, device_name: str, repeats: int) -> None:
    """Print a line for each job, and the worst of them against the limits."""
    import torch

    from perfmodel.devices.catalog import Catalog
    from perfmodel.predictors.serving import ServingModel

    torch.set_num_threads(1)
    model = ServingModel.load(folder)
    device = Catalog.default().get(device_name)
    print(f"{'on ' + device.name:34}{'nodes':>7}{'rows':>6}{'sketch':>11}{'predict':>11}", end="")
    print(f"{'together':>11}{'of limit':>9}{'again':>11}{'of limit':>9}")
    worst_new = worst_known = 0.0
    for fields in JOBS:
        nodes, rows, sketch_s, predict_s, again_s = measure_job(model, fields, device, repeats)
        new = (sketch_s + predict_s) / NEW_LIMIT_S
        known = again_s / KNOWN_LIMIT_S
        worst_new, worst_known = max(worst_new, new), max(worst_known, known)
        print(
            f"{fields['model']:34}{nodes:7.0f}{rows:6.0f}{1e3 * sketch_s:8.1f} ms"
            f"{1e3 * predict_s:8.1f} ms{1e3 * (sketch_s + predict_s):8.1f} ms{new:9.2f}"
            f"{1e3 * again_s:8.3f} ms{known:9.3f}",
            flush=True,
        )
    print(
        f"new graph: at worst {worst_new:.2f} of the limit of {1e3 * NEW_LIMIT_S:.0f} ms; "
        f"known graph: {worst_known:.3f} of {1e3 * KNOWN_LIMIT_S:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--name", default="default")
    parser.add_argument("--device", default="A100-SXM4-80GB")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    folder = joint_version(options.models, options.name)
    if folder is None:
        return
    print(f"{options.name}/{folder.name}, one core, {options.repeats} repeats")
    measure_load(folder, runs=3)
    measure_answers(folder, options.device, options.repeats)


if __name__ == "__main__":
    main()
