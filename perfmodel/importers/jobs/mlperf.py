"""Import the training results of MLPerf (mlcommons/training_results_*).

Reads them as one row per system and benchmark: accelerators, hosts, global batch size, throughput
of the whole system. Jobs are known by their benchmark's name alone: submissions tune model,
optimizer and kernels, and do not log precision.

A benchmark that only runs with model parallelism is left out, since the plan is not logged either;
so is one whose batch does not divide evenly over the accelerators.

MLPerf is a trademark of MLCommons. Step times derived here are no official results.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedPlacement
from perfmodel.placement.topology.topology import Network, Node, Placement

TABLE = PublicTable(
    files=("mlperf_training.parquet", "mlperf_training.csv"),
    source="mlcommons/training_results_*",
    licence="Apache-2.0",
    columns=(
        "round", "system", "accelerator", "device", "benchmark_norm", "num_nodes",
        "accel_per_node", "accel_interconnect", "node_network", "framework", "global_batch_size",
        "grad_accum", "throughput_total", "throughput_unit_guess", "throughput_quality",
        "unit_suspect", "src",
    ),
)  # fmt: skip

#: How a throughput came about, where it can be relied on: logged, or samples over time to train.
QUALITIES = (
    "tracked_consistent",
    "tracked_rescaled_per_device_consistent",
    "tracked_unchecked",
    "mean_from_ttt_only",
)

#: Benchmarks whose model does not fit one accelerator.
MODEL_PARALLEL = ("gpt3", "llama2_70b_lora", "llama31_405b")

_GENERATION = re.compile(r"pcie\D*([3-6])(?:\.0)?\b")
_ADAPTERS = re.compile(r"(\d+)\s*x\s.*?(\d+)\s*gb\s*/\s*s", re.IGNORECASE)


def read_mlperf(path: Path) -> Imported:
    """Read the table of results, or that of a folder; one placement per system and benchmark."""
    placements, rejected = TABLE.records(path, _placement)
    return Imported(placements=tuple(placements), rejected=rejected)


def _placement(row: Row, origin: Origin) -> PublishedPlacement:
    _check(row)
    placement = _where(row, Catalog.default())
    global_batch = count(row, "global_batch_size")
    steps = 1 if row["grad_accum"] is None else count(row, "grad_accum")
    shares = placement.accelerator_count * steps
    if global_batch % shares:
        raise ValueError("the batch does not divide over accelerators and accumulation")
    optional = ("accelerator", "framework", "accel_interconnect", "node_network")
    settings = {name: str(row[name]) for name in optional if row[name] is not None}
    settings |= {"accumulation_steps": str(steps), "quality": text(row, "throughput_quality")}
    settings |= {"system": text(row, "system"), "unit": text(row, "throughput_unit_guess")}
    named = f"MLPerf Training {text(row, 'round')}"
    return PublishedPlacement(
        job=None,
        job_type=f"mlperf-{text(row, 'benchmark_norm')}",
        batch_size=global_batch // shares,
        placement=placement,
        step_time_s=global_batch / positive(row, "throughput_total"),
        origin=replace(
            origin,
            source=f"{named} (mlcommons); derived, no official result",
            file=text(row, "src"),
            line=0,
        ),
        settings=MappingProxyType(settings),
    )


def _check(row: Row) -> None:
    """Raise ValueError with the reason why a row is not taken."""
    if str(row["unit_suspect"]).casefold() in ("true", "1"):
        raise ValueError("the unit of its throughput is suspect")
    if (quality := text(row, "throughput_quality")) not in QUALITIES:
        raise ValueError(f"throughput of quality {quality!r}")
    if row["throughput_unit_guess"] is None:
        raise ValueError("the unit of its throughput is unknown")
    if (benchmark := text(row, "benchmark_norm")) in MODEL_PARALLEL:
        raise ValueError(f"{benchmark} runs with model parallelism, and its plan is not logged")


def _where(row: Row, catalog: Catalog) -> Placement:
    hosts = count(row, "num_nodes")
    name = _accelerator(row, catalog)
    node = Node(
        accelerator=name,
        count=count(row, "accel_per_node"),
        link=_link(row, name, catalog),
        repeat=hosts,
    )
    return Placement(nodes=(node,), network=_network(row) if hosts > 1 else None)


def _accelerator(row: Row, catalog: Catalog) -> str:
    # Some normalised names are coarser than what was submitted.
    written, device = text(row, "accelerator"), text(row, "device")
    if device == "H200-SXM" and "NVL" in written:
        return "H200-NVL"
    if "V100S-PCIe-32GB" in written:
        return "V100S-PCIe-32GB"
    if device.endswith("?"):
        raise ValueError(f"{written!r} does not say which device it is")
    return catalog.canonical_name(device)


def _link(row: Row, accelerator: str, catalog: Catalog) -> str | None:
    """Return the link that the submission names, or None where it does not."""
    words = str(row["accel_interconnect"] or "").casefold()
    spec = catalog.get(accelerator)
    if "nvlink" in words:
        return spec.link
    if "pcie" in words:
        told = _GENERATION.search(words)
        generation = told[1] if told else spec.pcie_generation
        return None if generation is None else f"pcie{float(generation):g}"
    return None


def _network(row: Row) -> Network | None:
    """Return what the adapters for computing carry together, or None where they are not told."""
    parts = [part.strip() for part in str(row["node_network"] or "").split(",")]
    compute = [part for part in parts if part.casefold().startswith(("compute:", "compute :"))]
    plain = [part for part in parts if ":" not in part]
    found = [match for part in compute or plain if (match := _ADAPTERS.search(part))]
    if not found:
        return None
    # Gbit/s of one adapter to bytes/s of all; of several unnamed kinds the fastest carries them.
    rates = [int(match[1]) * int(match[2]) * 1e9 / 8 for match in found]
    return Network(bandwidth_bytes_per_s=max(rates))
