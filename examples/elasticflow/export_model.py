"""Write ElasticFlow's throughputs of one model: what was measured as it is, the rest predicted.

python examples/elasticflow/export_model.py http://127.0.0.1:8000 timm/resnet50 A100 > resnet50.csv

A fourth word is a file of measured throughputs, in the form of the table; cells may be empty.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from perfmodel.adapters.ask import Service
from perfmodel.adapters.elasticflow import read_throughputs, throughputs


def main(url: str, model: str, accelerator: str, measured: str | None = None) -> None:
    job = {"model": model, "mode": "training", "batch_size": 1}
    observed = {} if measured is None else read_throughputs(Path(measured))
    table = throughputs(
        Service(url, timeout_s=120.0),
        job,
        accelerator,
        global_batch_sizes=sorted({64, 128, 256, *(size for size, _ in observed)}),
        counts=sorted({1, 2, 4, 8, 16, 32, 64, *(count for _, count in observed)}),
        observed=observed,
    )
    print(table.to_csv(), end="")
    for row in table.unanswered:
        print(f"left out: {row}", file=sys.stderr)


if __name__ == "__main__":
    # What the answers rest on, as networks that were assumed, goes to standard error.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
