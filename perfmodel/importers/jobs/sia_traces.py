"""Import the profiles of data-parallel training that Sia's simulator uses.

``<model>/placements-<cluster>.csv`` holds one row per placement and local batch size: the whole
step and the part of it logged as synchronisation of gradients, in seconds. A placement is a digit
for every node: ``"134"`` is one, three and four accelerators on three nodes.

The clusters are those of the simulator's configuration: ``aws`` is g4dn.12xlarge, ``azure`` is
ND40rs_v2, ``dgx`` is a DGX A100 with 40 GB, ``quad`` and ``rtx`` are local machines. The jobs are
those of the benchmark folder beside it. Steps include the loading of data.

Left out: ``scalability-*.csv`` (means over placements) and the seeds.

Reference: siasosp23/artifacts, no licence stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.trained import Trained
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedPlacement,
    RejectedRow,
    steps_alone,
)
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.types import Precision

TABLE = PublicTable(
    files=("*/placements-*.csv", "placements-*.csv"),
    source="siasosp23/artifacts sia-simulator/traces/",
    licence="not stated",
    columns=("placement", "local_bsz", "step_time", "sync_time"),
)
#: Where the tables lie in a clone, best first.
FOLDERS = (".", "sia-simulator/traces")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """What a cluster is made of.

    Parameters
    ----------
    network : str or None
        Named network between nodes; None where it is not stated.
    """

    accelerator: str
    per_node: int
    network: str | None = None


#: Instance types say the network: 50 Gbit/s of g4dn.12xlarge, InfiniBand EDR of ND40rs_v2.
CLUSTERS: Mapping[str, Cluster] = MappingProxyType(
    {
        "aws": Cluster(accelerator="T4", per_node=4, network="eth-50g"),
        "azure": Cluster(accelerator="V100-SXM2-32GB", per_node=8, network="ib-100g"),
        "dgx": Cluster(accelerator="A100-SXM4-40GB", per_node=8),
        "dgx-ext": Cluster(accelerator="A100-SXM4-40GB", per_node=8),
        "quad": Cluster(accelerator="Quadro-RTX-6000", per_node=4),
        "rtx": Cluster(accelerator="RTX-2080Ti", per_node=8),
    }
)


JOBS: Mapping[str, Trained] = MappingProxyType(
    {
        "bert": Trained(model="zoo/bert-base-squad", optimizer="adamw", sequence_length=384),
        "cifar10": Trained(model="zoo/resnet18-cifar", optimizer="momentum"),
        "deepspeech2": Trained(model="zoo/deepspeech2", optimizer="momentum"),
        "imagenet": Trained(model="zoo/resnet50-v1.5", optimizer="momentum", amp=True),
        # MovieLens-1M; 32 factors and a perceptron 256-128-64-32.
        "ncf": Trained(
            model="zoo/ncf",
            optimizer="adam",
            model_kwargs={
                "num_users": 6040, "num_items": 3706, "num_factors": 32, "deep_factors": 128,
            },
        ),
        # PASCAL VOC; every ten steps one of ten sides, 320 to 608 pixels, of the mean area of 473.
        "yolov3": Trained(
            model="zoo/yolov3",
            optimizer="momentum",
            model_kwargs={"num_classes": 20, "img_size": 480},
        ),
    }
)  # fmt: skip


def read_sia(path: Path) -> Imported:
    """Read every table of placements; those on one accelerator are steps as well.

    Parameters
    ----------
    path : Path
        A table, the folder of models, one model's folder, or a clone of the repository.
    """
    placements: list[PublishedPlacement] = []
    rejected: list[RejectedRow] = []
    for file in _files(path):
        model, cluster = file.parent.name, file.stem.removeprefix("placements-")
        name = f"{model}/{file.name}"
        if cluster not in CLUSTERS or model not in JOBS:
            reason = "the path names no known model and cluster"
            rejected.append(RejectedRow(file=name, line=0, reason=reason))
            continue
        make = partial(_placement, model=model, cluster=cluster)
        made, others = TABLE.understood(name, TABLE.rows(file), make)
        placements += made
        rejected += others
    return Imported(
        steps=steps_alone(placements), placements=tuple(placements), rejected=tuple(rejected)
    )


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    for folder in FOLDERS:
        for pattern in TABLE.files:
            if found := sorted((path / folder).glob(pattern)):
                return found
    raise StoreError(
        f"No <model>/placements-<cluster>.csv in {path}; name the folder of the models."
    )


def _placement(row: Row, origin: Origin, *, model: str, cluster: str) -> PublishedPlacement:
    step_time_s, sync_time_s = positive(row, "step_time"), _seconds(row, "sync_time")
    if sync_time_s > step_time_s:
        raise ValueError("synchronisation takes longer than the step it is part of")
    batch_size = count(row, "local_bsz")
    job = JOBS[model].job(batch_size, precision_on(JOBS[model], CLUSTERS[cluster].accelerator))
    return PublishedPlacement(
        job=job,
        job_type=f"sia/{model}",
        batch_size=batch_size,
        placement=_nodes(text(row, "placement"), CLUSTERS[cluster]),
        step_time_s=step_time_s,
        origin=origin,
        sync_time_s=sync_time_s,
        settings={"cluster": cluster, "optimizer": JOBS[model].optimizer},
    )


def _seconds(row: Row, name: str) -> float:
    try:
        seconds = float(text(row, name))
    except ValueError as error:
        raise ValueError(f"no {name}") from error
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{name} is {seconds}, no time")
    return seconds


def _nodes(digits: str, cluster: Cluster) -> Placement:
    if not digits.isdigit() or "0" in digits:
        raise ValueError(f"placement {digits!r} is no digit above zero for each node")
    counts = sorted(int(digit) for digit in digits)
    if counts[-1] > cluster.per_node:
        raise ValueError(f"placement {digits!r} has more than {cluster.per_node} on a node")
    nodes = tuple(
        Node(accelerator=cluster.accelerator, count=one, repeat=len(list(same)))
        for one, same in groupby(counts)
    )
    network = named_network(cluster.network) if cluster.network and len(counts) > 1 else None
    return Placement(nodes=nodes, network=network)


def precision_on(trained: Trained, accelerator: str) -> Precision:
    """Return the precision that a job was trained in on an accelerator of the catalogue."""
    if trained.amp:
        return Precision.AMP_FP16
    # PyTorch of that time multiplied fp32 in TF32 where the device can.
    return Precision.TF32 if accelerator.startswith("A100") else Precision.FP32
