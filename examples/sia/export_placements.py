"""Write Sia's placements of one model on a cluster of T4s from predictions.

python examples/sia/export_placements.py http://127.0.0.1:8000 timm/resnet50 > placements-aws.csv
"""

from __future__ import annotations

import sys

from perfmodel.adapters.ask import Service
from perfmodel.adapters.sia import SiaCluster, steps


def main(url: str, model: str) -> None:
    job = {"model": model, "mode": "training", "batch_size": 1}
    cluster = SiaCluster(accelerator="T4", per_node=4, nodes=4, network="eth-50g")
    table = steps(Service(url, timeout_s=120.0), job, cluster, local_batch_sizes=[16, 32, 64])
    print(table.placements_csv(), end="")
    for row in table.left_out:
        print(f"left out: {row}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
