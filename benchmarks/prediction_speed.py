"""Seconds to load the joint predictor, and to answer new, known and many graphs on one core.

python benchmarks/prediction_speed.py --models models --device A100-SXM4-80GB

Capture is excluded. A new graph is one that was just captured: it is hashed and priced, its sketch
is made, and it is answered; a service does the first two when it registers the graph. A known one
was answered before and is remembered. Each figure is a median, and stands beside the limit that it
is held against. Answers are timed in CPU seconds of their one thread, so that other work on the
machine does not count; loading, which reads files, in wall time. Many cells are the graphs on every
accelerator of the catalogue, all of them asked about at once and never before.
"""

from __future__ import annotations

import os

# Before numpy is loaded: the limits hold on one core.
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import dataclasses
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOAD_LIMIT_S = 3.0
NEW_LIMIT_S = 0.05
KNOWN_LIMIT_S = 0.001
#: Jobs whose graphs grow from some 70 to some 4,000 nodes.
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
from perfmodel.predictors.serving.own_process import prepare_process
prepare_process()
from perfmodel.predictors.joint import joint_store
from perfmodel.predictors.members import gnn, graph_trees, operator_trees
from perfmodel.predictors.serving import serving
imported = time.perf_counter()
serving.ServingModel.load(__import__("pathlib").Path(sys.argv[1]))
print(imported - begin, time.perf_counter() - imported)
"""


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of some work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


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


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Sizes of one graph, and median seconds of the parts of an answer."""

    nodes: int
    rows: int
    hash_and_price_s: float
    sketch_s: float
    predict_s: float
    again_s: float

    @property
    def new_s(self) -> float:
        """Everything between a capture and its answer."""
        return self.hash_and_price_s + self.sketch_s + self.predict_s


def _workload(graph: Any, device: Any, job: Any, **others: Any) -> Any:
    from perfmodel.graph.workload import Workload

    return Workload(
        graph=graph,
        accelerator=device,
        mode=job.mode,
        batch_size=job.batch_size,
        precision=job.precision,
        **others,
    )


def measure_job(model: Any, fields: dict[str, Any], device: Any, repeats: int) -> Timing:
    """Time the answers for one job."""
    from perfmodel.capture.torch import capture
    from perfmodel.features.steps.sketch import step_sketch
    from perfmodel.graph.cost import cost_table
    from perfmodel.requests import parse_job
    from perfmodel.zoo.resolve import build_program

    job = parse_job(fields)
    captured = capture(build_program(job))
    parts: list[list[float]] = []
    for turn in range(1 + repeats):
        # A copy has nothing kept with it. The last digit of the version makes it another
        # question that takes the same work.
        graph = dataclasses.replace(captured)
        workload = _workload(graph, device, job, software={"torch": f"2.4.{turn}"})
        steps: list[Callable[[], Any]] = [
            lambda g=graph: (g.content_hash, cost_table(g)),  # type: ignore[misc]
            lambda g=graph: step_sketch(g),  # type: ignore[misc]
            lambda w=workload: model.predict([w]),  # type: ignore[misc]
            lambda w=workload: model.predict([w]),  # type: ignore[misc]
        ]
        parts.append([seconds(step) for step in steps])
    medians = [statistics.median(times) for times in zip(*parts[1:], strict=True)]
    return Timing(
        nodes=len(captured.nodes),
        rows=len(step_sketch(captured).count),
        hash_and_price_s=medians[0],
        sketch_s=medians[1],
        predict_s=medians[2],
        again_s=medians[3],
    )


def measure_answers(folder: Path, device_name: str, repeats: int) -> None:
    """Print a line for each job, and the worst of them against the limits."""
    from perfmodel.devices.catalog import Catalog
    from perfmodel.predictors.serving.own_process import prepare_process
    from perfmodel.predictors.serving.serving import ServingModel

    prepare_process()
    model = ServingModel.load(folder)
    device = Catalog.default().get(device_name)
    parts = ("hash, price", "sketch", "predict", "together")
    columns = "".join(f"{name:>13}" for name in parts)
    print(f"{'on ' + device.name:34}{'nodes':>6}{'rows':>5}{columns} of limit", end="")
    print(f"{'again':>11} of limit")
    worst_new = worst_known = 0.0
    for fields in JOBS:
        found = measure_job(model, fields, device, repeats)
        new, known = found.new_s / NEW_LIMIT_S, found.again_s / KNOWN_LIMIT_S
        worst_new, worst_known = max(worst_new, new), max(worst_known, known)
        times = (found.hash_and_price_s, found.sketch_s, found.predict_s, found.new_s)
        print(
            f"{fields['model']:34}{found.nodes:6}{found.rows:5}"
            + "".join(f"{1e3 * time_s:10.1f} ms" for time_s in times)
            + f"{new:9.2f}{1e3 * found.again_s:8.3f} ms{known:9.3f}",
            flush=True,
        )
    print(
        f"new graph: at worst {worst_new:.2f} of the limit of {1e3 * NEW_LIMIT_S:.0f} ms; "
        f"known graph: {worst_known:.3f} of {1e3 * KNOWN_LIMIT_S:.0f} ms"
    )


def measure_many(folder: Path, repeats: int) -> None:
    """Print the time a cell of many that are asked about at once."""
    from perfmodel.devices.catalog import Catalog
    from perfmodel.features.steps.step import Step
    from perfmodel.predictors.serving.serving import ServingModel
    from perfmodel.requests import parse_job
    from perfmodel.zoo.shipped.shipped_graphs import shipped_graph

    joint = ServingModel.load(folder).joint
    assert joint is not None
    jobs = [parse_job(fields) for fields in JOBS]
    shipped = [(job, found) for job in jobs if (found := shipped_graph(job)) is not None]
    accelerators = [spec for spec in Catalog.default() if spec.kind in ("gpu", "cpu")]
    steps = [
        Step.of(_workload(found.graph, spec, job))
        for job, found in shipped
        for spec in accelerators
    ]
    taken = min(seconds(lambda: joint.predict(steps)) for _ in range(repeats))
    print(
        f"{len(steps)} cells ({len(shipped)} shipped graphs x {len(accelerators)} accelerators): "
        f"{taken:.2f} s, {1e3 * taken / len(steps):.2f} ms a cell"
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
    measure_many(folder, options.repeats)


if __name__ == "__main__":
    main()
