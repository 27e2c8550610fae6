from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfmodel.importers.jobs.mlperf import read_mlperf
from perfmodel.importers.published import Imported

RESULT: dict[str, Any] = {
    "round": "v9.9",
    "system": "2xBoxA100",
    "accelerator": "NVIDIA A100-SXM4-80GB (400W)",
    "device": "A100-SXM-80GB",
    "benchmark_norm": "rnnt",
    "num_nodes": 2.0,
    "accel_per_node": 8.0,
    "accel_interconnect": None,
    "node_network": None,
    "framework": "Torch 99",
    "global_batch_size": 640.0,
    "grad_accum": 2.0,
    "throughput_total": 1280.0,
    "throughput_unit_guess": "utterances/s",
    "throughput_quality": "tracked_consistent",
    "unit_suspect": False,
    "src": "Nobody/results/2xBoxA100/rnnt",
}


def read(folder: Path, *changes: dict[str, Any]) -> Imported:
    rows = [{**RESULT, **change} for change in changes]
    pq.write_table(pa.Table.from_pylist(rows), folder / "mlperf_training.parquet")
    return read_mlperf(folder)


def test_a_result_is_a_placement_known_by_its_benchmark(tmp_path: Path) -> None:
    (record,) = read(tmp_path, {}).placements
    assert (record.job, record.job_type) == (None, "mlperf-rnnt")
    assert (record.placement.accelerator_count, record.placement.host_count) == (16, 2)
    assert record.placement.nodes[0].accelerator == "A100-SXM4-80GB"
    # 640 samples over 16 accelerators and 2 micro-batches; 640 / 1280 per second
    assert record.batch_size == 20
    assert record.step_time_s == pytest.approx(0.5)
    assert record.settings["accumulation_steps"] == "2"
    assert "MLPerf Training v9.9" in record.origin.source
    assert "no official result" in record.origin.source


@pytest.mark.parametrize(
    ("written", "link"),
    [
        (None, None),
        ("NVLINK 3.0 600GB/s", "nvlink3"),
        ("PCIe, Gen3", "pcie3"),
        ("PCIe 4.0", "pcie4"),
        ("PCIe", "pcie4"),  # the card's own generation
        ("2 x 200GbE", None),
    ],
)
def test_the_link_is_the_one_that_is_named(
    tmp_path: Path, written: str | None, link: str | None
) -> None:
    (record,) = read(tmp_path, {"accel_interconnect": written}).placements
    assert record.placement.nodes[0].link == link


@pytest.mark.parametrize(
    ("written", "bandwidth"),
    [
        (None, None),
        ("Infiniband", None),
        ("4x ConnectX-7 IB NDR 400Gb/s", 200e9),  # 4 x 400e9 / 8
        ("Storage: 2x A IB 400Gb/s, Compute: 8x B IB 200Gb/sec, Ma", 200e9),  # 8 x 200e9 / 8
        ("Storage: 2x A IB 400Gb/s, Management: 1x Ethernet 10Gb/s", None),
        ("1x Ethernet 40Gb/Sec, 8x IB HDR 200Gb/Sec", 200e9),
    ],
)
def test_the_network_is_what_the_adapters_for_computing_carry(
    tmp_path: Path, written: str | None, bandwidth: float | None
) -> None:
    (record,) = read(tmp_path, {"node_network": written}).placements
    network = record.placement.network
    assert (network and network.bandwidth_bytes_per_s) == bandwidth


def test_one_host_has_no_network(tmp_path: Path) -> None:
    told = {"num_nodes": 1.0, "node_network": "4x IB 400Gb/s"}
    (record,) = read(tmp_path, told).placements
    assert record.placement.network is None


@pytest.mark.parametrize(
    ("device", "written", "name"),
    [
        ("H200-SXM", "NVIDIA H200-NVL-141GB", "H200-NVL"),
        ("V100-?", "Nvidia Tesla V100S-PCIe-32GB", "V100S-PCIe-32GB"),
        ("A100-PCIe-40GB", "NVIDIA A100-PCIE-40GB (250W)", "A100-PCIe-40GB"),
    ],
)
def test_what_was_submitted_goes_before_its_normalised_name(
    tmp_path: Path, device: str, written: str, name: str
) -> None:
    (record,) = read(tmp_path, {"device": device, "accelerator": written}).placements
    assert record.placement.nodes[0].accelerator == name


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"unit_suspect": True}, "the unit of its throughput is suspect"),
        ({"throughput_quality": "tracked_INCONSISTENT"}, "throughput of quality"),
        ({"throughput_unit_guess": None}, "the unit of its throughput is unknown"),
        ({"benchmark_norm": "gpt3"}, "plan is not logged"),
        ({"global_batch_size": 650.0}, "does not divide"),
        ({"num_nodes": None}, "no num_nodes"),
        ({"device": "V100-?", "accelerator": "Tesla V100"}, "does not say which device"),
        ({"device": "ZX-1"}, "Unknown accelerator 'ZX-1'"),
    ],
)
def test_rows_that_say_too_little_are_rejected(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    found = read(tmp_path, change, {})
    assert len(found.placements) == 1
    (row,) = found.rejected
    assert row.line == 1
    assert reason in row.reason
