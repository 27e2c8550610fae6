"""Kernel calls whose times follow a law that is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_calls import KernelCalls, kernel_calls
from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.importers.published import Origin, PublishedKernel
from perfmodel.predictors.kernels.kernel_predictor import KERNEL_SETTINGS
from perfmodel.training.kernels.train_kernels import train_kernels

DEVICES = ("T4", "V100-PCIe-32GB", "A100-PCIe-40GB", "H100-SXM5-80GB")
LAUNCH_S = 4e-6
ORIGIN = Origin(source="made up", licence="Apache-2.0")


def made_up_calls(
    count: int, seed: int = 0, devices: tuple[str, ...] = DEVICES, largest: int = 12
) -> KernelCalls:
    """Return the same matrix products and additions on each device, extents up to 2^largest."""
    rng = np.random.default_rng(seed)
    catalog = Catalog.default()
    extents = 2.0 ** rng.integers(4, largest + 1, size=(count, 3))
    op: list[str] = []
    shape: list[dict[str, float]] = []
    for position, (m, n, k) in enumerate(extents.tolist()):
        if position % 3:
            op.append("gemm")
            shape.append({"m": m, "n": n, "k": k})
        else:
            op.append("add")
            shape.append({"rows": m, "width": n, "inputs": 2.0})
    specs = [catalog.get(name) for name in devices]
    return kernel_calls(
        op=op * len(specs),
        dtype=["fp16"] * (count * len(specs)),
        accelerator=[spec for spec in specs for _ in range(count)],
        shape=shape * len(specs),
        kernel=["torch 2.9 made_up"] * (count * len(specs)),
    )


def law(calls: KernelCalls) -> FloatArray:
    """``4 us + roofline / efficiency``: 0.8, for products 0.4 to 0.8 with their depth."""
    roofline = kernel_roofline(calls)
    depth = np.clip(np.log2(roofline.work.k) / 12.0, 0.0, 1.0)
    efficiency = np.where(calls.op == "gemm", 0.4 + 0.4 * depth, 0.8)
    return LAUNCH_S + roofline.roofline_s / efficiency


def made_up_records(count: int) -> list[PublishedKernel]:
    """Return calls that follow the law, with some noise, as records."""
    calls = made_up_calls(count)
    noise = np.random.default_rng(1).normal(0.0, 0.05, len(calls))
    times = law(calls) * np.exp(noise)
    return [
        PublishedKernel(
            op=str(calls.op[i]),
            accelerator=str(calls.device_names[i]),
            dtype=str(calls.dtype[i]),
            shape={n: float(c[i]) for n, c in calls.shape.items() if np.isfinite(c[i])},
            time_s=float(times[i]),
            origin=ORIGIN,
            kernel=str(calls.kernel[i]),
        )
        for i in range(len(calls))
    ]


def train_quickly(count: int, folder: Path, limit: int = 60) -> Path:
    """Learn the made-up law with a few trees; the real settings have six times as many."""
    settings = replace(KERNEL_SETTINGS, rounds=40)
    return train_kernels(made_up_records(count), folder, limit=limit, settings=settings)
