"""Bodies in the shapes that Kubernetes sends, with made-up content."""

from __future__ import annotations

import json
from typing import Any

H100 = "NVIDIA-H100-80GB-HBM3"
T4 = "Tesla-T4"
A100 = "NVIDIA-A100-SXM4-80GB"


def job_text(model: str = "timm/resnet50", mode: str = "inference", batch_size: int = 64) -> str:
    return json.dumps({"model": model, "mode": mode, "batch_size": batch_size})


def pod(
    job: str | None = None,
    *,
    gpus: int = 1,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a v1.Pod as an API server writes it, with fields that nobody here reads."""
    written = {**({} if job is None else {"perfmodel/job": job}), **(annotations or {})}
    limits = {"cpu": "8", "memory": "64Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "metadata": {
            "name": "train-0",
            "namespace": "team-a",
            "uid": "0f5c1d8e-4a0c-4d0e-9a61-2f5fcb0a7a11",
            "creationTimestamp": "2026-01-05T09:30:00Z",
            "labels": {"app": "train", **(labels or {})},
            "annotations": written,
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "resources": {"limits": limits, "requests": limits},
                }
            ],
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }


def node(name: str, product: str | None, **labels: str) -> dict[str, Any]:
    """Return a v1.Node."""
    named = {} if product is None else {"nvidia.com/gpu.product": product}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.count": "8", **named}
            | labels,
        },
        "spec": {"podCIDR": "10.0.1.0/24"},
        "status": {
            "allocatable": {"cpu": "96", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def extender_args(
    a_pod: dict[str, Any],
    nodes: list[dict[str, Any]] | None = None,
    names: list[str] | None = None,
) -> dict[str, Any]:
    listed = None if nodes is None else {"metadata": {}, "items": nodes}
    return {"Pod": a_pod, "Nodes": listed, "NodeNames": names}
