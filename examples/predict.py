"""Ask from Python: one job on several placements.

.venv/bin/python examples/predict.py
"""

from __future__ import annotations

from pathlib import Path

from perfmodel import Estimator, parse_request

MODELS = Path(__file__).parents[1] / "models"


def main() -> None:
    estimator = Estimator.from_folder(MODELS)
    for placement in ("V100-SXM2-16GB", "A100-SXM4-80GB", "8xA100-SXM4-80GB", "H100-SXM5-80GB"):
        job, where = parse_request(
            {
                "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
                "placement": placement,
            }
        )
        found = estimator.estimate(job, where)
        rate = found.throughput
        print(
            f"{placement:<18} {rate.samples_per_second:10.0f} samples/s "
            f"({rate.low:.0f} to {rate.high:.0f}), {found.basis}, fits: {found.memory.fits}"
        )


if __name__ == "__main__":
    main()
