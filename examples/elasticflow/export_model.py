"""Write ElasticFlow's throughputs of one model from predictions.

python examples/elasticflow/export_model.py http://127.0.0.1:8000 timm/resnet50 A100 > resnet50.csv
"""

from __future__ import annotations

import sys

from perfmodel.adapters.ask import Service
from perfmodel.adapters.elasticflow import throughputs


def main(url: str, model: str, accelerator: str) -> None:
    job = {"model": model, "mode": "training", "batch_size": 1}
    table = throughputs(
        Service(url, timeout_s=120.0), job, accelerator, global_batch_sizes=[64, 128, 256]
    )
    print(table.to_csv(), end="")
    for row in table.unanswered:
        print(f"left out: {row}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
