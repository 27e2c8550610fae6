"""Real steps: shipped graphs on accelerators of the catalogue, and the model that is shipped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.workload import Workload
from perfmodel.requests import parse_job
from perfmodel.store.artifacts import latest
from perfmodel.zoo.shipped.shipped_graphs import shipped_graph

MODELS = Path(__file__).resolve().parents[1] / "models"
#: Of tens and of hundreds of different operators, on matrix units and beside them.
JOBS = (
    {"model": "timm/resnet50", "mode": "training", "batch_size": 64, "precision": "amp_fp16"},
    {"model": "timm/vit_base_patch16_224", "mode": "inference", "batch_size": 8},
    {"model": "timm/efficientnet_b0", "mode": "training", "batch_size": 32},
    {"model": "timm/densenet121", "mode": "inference", "batch_size": 1, "precision": "fp16"},
)
ACCELERATORS = (
    "A100-SXM4-80GB", "H100-SXM5-80GB", "T4", "MI300X", "RTX-4090", "Xeon-Platinum-8380",
)  # fmt: skip


def version_folder() -> Path:
    """Return the folder of the shipped version."""
    return latest(MODELS, "default").folder


@cache
def shipped_workloads(accelerators: tuple[str, ...] = ACCELERATORS) -> tuple[Workload, ...]:
    """Return each job on each accelerator."""
    found = []
    for fields in JOBS:
        job = parse_job(fields)
        shipped = shipped_graph(job)
        assert shipped is not None
        found += [
            Workload(
                graph=shipped.graph,
                accelerator=Catalog.default().get(name),
                mode=job.mode,
                batch_size=job.batch_size,
                precision=job.precision,
            )
            for name in accelerators
        ]
    return tuple(found)
