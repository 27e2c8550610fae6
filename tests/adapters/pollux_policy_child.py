"""Run AdaptDL's own policy on predictions; started by the interpreter of a venv that has it."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pymoo.optimize
from adaptdl.goodput import GoodputFunction, GradParams, PerfParams, fit_perf_params
from adaptdl.sched_hints import PERF_PARAMS, SCHED_HINTS
from adaptdl_sched.policy.pollux import PolluxPolicy
from adaptdl_sched.policy.speedup import SpeedupFunction
from adaptdl_sched.policy.utils import JobInfo, NodeInfo

from perfmodel.adapters.adaptdl import StepGrid, sched_hints, step_grid
from perfmodel.adapters.adaptdl_speedup import BatchRange, speedup_fn
from perfmodel.adapters.ask import Service

NODES, PER_NODE = 4, 4
RESOURCES = {"nvidia.com/gpu": 1, "pods": 1}
SMALL = {"model": "timm/small", "mode": "training", "batch_size": 1}
HUGE = {"model": "timm/huge", "mode": "training", "batch_size": 1}


def from_hints(hints: dict[str, Any]) -> SpeedupFunction:
    """Build the speedup function as AdaptDL's allocator does."""
    hints = {key: hints[key] for key in SCHED_HINTS if key in hints}
    params = PerfParams(*[hints["perfParams"][key] for key in PERF_PARAMS])
    goodput = GoodputFunction(params, GradParams(0.0, 1.0), hints["initBatchSize"])
    return SpeedupFunction(
        goodput, hints.get("maxBatchSize"), hints.get("localBszBounds"),
        hints.get("gradientAccumulation", False),
    )  # fmt: skip


def allocate(speedups: dict[str, Any], rounds: int = 1) -> dict[str, list[str]]:
    """Run the policy some rounds, each on the allocations of the one before."""
    now = datetime.now()
    jobs = {
        key: JobInfo(RESOURCES, speedup, now + timedelta(minutes=at), 1, NODES * PER_NODE)
        for at, (key, speedup) in enumerate(speedups.items())
    }
    resources = {"nvidia.com/gpu": PER_NODE, "pods": 32}
    nodes = {f"node-{i}": NodeInfo(resources, preemptible=False) for i in range(NODES)}
    policy, allocations = PolluxPolicy(), {}
    for _ in range(rounds):
        allocations, _ = policy.optimize(jobs, nodes, allocations, NodeInfo(resources, True))
    return allocations


def apart(grid: StepGrid, params: PerfParams) -> float:
    """Return the median relative error of AdaptDL's form with some parameters."""
    goodput = GoodputFunction(params, GradParams(0.0, 1.0), 1)
    rate = goodput.throughput(grid.num_nodes, grid.num_replicas, grid.atomic_bsz, 0)
    times = grid.num_replicas * grid.atomic_bsz / rate
    return float(np.median(np.abs(np.log(times / grid.optim_step_time))))


def main(url: str) -> None:
    """Ask the service, allocate, and print what came out."""
    np.random.seed(0)
    # A quarter of the generations that the policy asks for: two jobs need no more.
    whole = pymoo.optimize.minimize
    pymoo.optimize.minimize = lambda problem, algorithm, _: whole(problem, algorithm, ("n_gen", 25))
    service = Service(url, timeout_s=60.0)
    hinted, told, direct = {}, {}, {}
    for key, job, bounds in (("small", SMALL, (64, 4096)), ("huge", HUGE, (1, 64))):
        grid = step_grid(
            service, job, "V100-SXM2-32GB", batch_sizes=[bounds[0], 8 * bounds[0], bounds[1]],
            max_replicas=NODES * PER_NODE, per_host=PER_NODE,
        )  # fmt: skip
        hints = sched_hints(
            grid, init_batch_size=bounds[1], max_batch_size=bounds[1] * 32,
            local_bsz_bounds=bounds,
        )  # fmt: skip
        hinted[key] = from_hints(hints)
        own = fit_perf_params(
            grid.num_nodes, grid.num_replicas, grid.atomic_bsz,
            grid.accum_step_time, grid.optim_step_time,
        )  # fmt: skip
        told[key] = {
            "ours": apart(grid, PerfParams(**hints["perfParams"])),
            "theirs": apart(grid, own),
        }
        direct[key] = speedup_fn(
            service, job, "V100-SXM2-32GB",
            BatchRange(
                init_batch_size=bounds[1], max_batch_size=bounds[1] * 32, local_bsz_bounds=bounds
            ),
            max_nodes=2 * NODES, per_host=PER_NODE,
        )  # fmt: skip
    down = speedup_fn(
        Service("http://127.0.0.1:9", timeout_s=0.2), SMALL, "V100",
        BatchRange(init_batch_size=64, max_batch_size=64, local_bsz_bounds=(1, 64)), max_nodes=4,
    )  # fmt: skip
    print(
        json.dumps(
            {
                "fit": told,
                "hints": allocate(hinted, rounds=2),
                "direct": allocate(direct),
                "without the service": allocate({"first": down, "second": down}),
                "speedups": {
                    key: {
                        "hints": float(hinted[key](4, 16)),
                        "direct": float(direct[key](4, 16)),
                    }
                    for key in hinted
                },
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
