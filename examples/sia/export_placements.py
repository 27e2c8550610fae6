"""Write Sia's placements on a cluster of T4s: what was measured as it is, the rest predicted.

python examples/sia/export_placements.py http://127.0.0.1:8000 imagenet > placements-aws.csv

The second word is one of Sia's applications, or a model; a third one is a file of measured rows.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from perfmodel.adapters.ask import Service
from perfmodel.adapters.sia import SiaCluster, read_steps, steps
from perfmodel.adapters.sia_jobs import APPLICATIONS, sia_jobs


def main(url: str, name: str, measured: str | None = None) -> None:
    if name in APPLICATIONS:
        job = sia_jobs("T4")[name]
    else:
        job = {"model": name, "mode": "training", "batch_size": 1}
    cluster = SiaCluster(accelerator="T4", per_node=4, nodes=4, network="eth-50g")
    table = steps(
        Service(url, timeout_s=120.0),
        job,
        cluster,
        local_batch_sizes=[16, 32, 64],
        observed=() if measured is None else read_steps(Path(measured)),
    )
    print(table.placements_csv(), end="")
    for row in table.left_out:
        print(f"left out: {row}", file=sys.stderr)


if __name__ == "__main__":
    # What the answers rest on, as networks that were assumed, goes to standard error.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
