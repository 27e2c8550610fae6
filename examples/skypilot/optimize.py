"""Let SkyPilot's optimiser compare clouds by predicted time; needs SkyPilot.

python examples/skypilot/optimize.py http://127.0.0.1:8000
"""

from __future__ import annotations

import sys

import sky

from perfmodel.adapters.ask import Service
from perfmodel.adapters.skypilot import TimeEstimator

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


def main(url: str) -> None:
    with sky.Dag() as dag:
        task = sky.Task(run="python train.py", num_nodes=2)
        task.set_resources({sky.Resources(accelerators=a) for a in ("V100:8", "A100:8")})
        task.set_time_estimator(TimeEstimator(Service(url), JOB, total_samples=1e8, num_nodes=2))
    sky.Optimizer.optimize(dag, minimize=sky.OptimizeTarget.COST)


if __name__ == "__main__":
    main(sys.argv[1])
