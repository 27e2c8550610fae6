"""Measurements of several processes as they would be stored, with made-up times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.process_records import (
    CollectiveRecord,
    LoaderRecord,
    NeighbourRecord,
    Repeats,
    ReplicaRecord,
)
from perfmodel.records import Provenance

#: A core of a made-up CPU, which no catalogue knows.
CORE: Mapping[str, Any] = {
    "name": "cpu-made-up-1c", "kind": "cpu", "vendor": "Made-up", "architecture": "x86_64",
    "form_factor": "host", "peak_flops": {"fp32": 5e10}, "memory_bytes": 8e9,
    "bandwidth_bytes_per_s": 8e9, "core_count": 1, "sources": {"*": "made up"},
}  # fmt: skip
JOB: Mapping[str, Any] = {"model": "zoo/ncf", "mode": "training", "batch_size": 64}
OTHER: Mapping[str, Any] = {"model": "timm/resnet18", "mode": "inference", "batch_size": 2}


def repeats(time_s: float) -> Repeats:
    """Return quiet repeats of one length."""
    return Repeats(time_s=time_s, samples_s=(time_s,) * 3, low_s=time_s, high_s=time_s)


def provenance(measured_at: str = "2026-11-01T00:00:00+00:00", cores: int = 1) -> Provenance:
    """Return a provenance of the made-up CPU."""
    facts = {**CORE, "core_count": cores, "name": f"cpu-made-up-{cores}c"}
    return Provenance(
        accelerator=facts,
        software={"torch": "2.13.0+cpu"},
        measured_at=measured_at,
        source="perfmodel 0.1.0",
        threads=cores,
    )


def collective(time_s: float = 1e-3, **changed: Any) -> CollectiveRecord:
    """Return an all-reduce of 1 MiB between two cores."""
    values: dict[str, Any] = {
        "collective": "all_reduce", "accelerator": "cpu-made-up-1c", "ranks": 2, "hosts": 1,
        "size_bytes": 1 << 20, "dtype": "float32", "backend": "gloo 2.13.0",
        "cores_per_rank": 1.0, "repeats": repeats(time_s), "provenance": provenance(),
    }  # fmt: skip
    return CollectiveRecord(**{**values, **changed})


def replica(time_s: float = 0.1, **changed: Any) -> ReplicaRecord:
    """Return the step of two replicas under DDP."""
    values: dict[str, Any] = {
        "job": JOB, "model": "zoo/ncf", "family": "ncf", "accelerator": "cpu-made-up-1c",
        "replicas": 2, "hosts": 1, "sharding": "ddp", "backend": "gloo 2.13.0",
        "cores_per_rank": 1.0, "peak_memory_bytes": 1e8, "repeats": repeats(time_s),
        "provenance": provenance(),
    }  # fmt: skip
    return ReplicaRecord(**{**values, **changed})


def neighbour(time_s: float = 0.2, **changed: Any) -> NeighbourRecord:
    """Return the step of a job beside another one on two cores."""
    values: dict[str, Any] = {
        "job": JOB, "model": "zoo/ncf", "family": "ncf", "neighbour": OTHER,
        "accelerator": "cpu-made-up-2c", "sharing": "cores", "alone_s": 0.1,
        "repeats": repeats(time_s), "provenance": provenance(cores=2),
    }  # fmt: skip
    return NeighbourRecord(**{**values, **changed})


def loader(time_s: float = 0.1, **changed: Any) -> LoaderRecord:
    """Return batches of 32 photos by two workers on two cores."""
    values: dict[str, Any] = {
        "input_kind": "image_jpeg", "host": "cpu-made-up-2c", "cores": 2, "workers": 2,
        "batch_size": 32, "stored_bytes": 84e3, "files": 1.0, "source_pixels": 187_500.0,
        "side_pixels": 224, "sequence_length": 0, "tensor_bytes": 602_112.0,
        "locality": "memory", "repeats": repeats(time_s), "provenance": provenance(cores=2),
    }  # fmt: skip
    return LoaderRecord(**{**values, **changed})
