"""mlx-benchmark and LLMCompass: small sets of operators, whose units are checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from importers.tidy_tables import write_rows

from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.importers.kernels import llmcompass, mlx_benchmark
from perfmodel.importers.registry import read_format
from perfmodel.training.samples.measured_kernels import measured_calls

FOLDER = os.environ.get("PERFMODEL_DATA")
M2_PRO = "M2 Pro (cores: 4E+6P+16GPU) mlx 0.12.2 torch 2.1.2"
HEADER = "op,device,M,N,K,latency_ms,throughput"


def operator(**changed: Any) -> dict[str, Any]:
    """Return a made-up product on Apple's GPU."""
    plain: dict[str, Any] = {
        "chip": M2_PRO, "backend": "mlx_gpu", "operation": "MatMul",
        "shape": "dim=20x64x256 dim=256x32", "value": 0.25, "unit": "ms",
    }  # fmt: skip
    return {**plain, **changed}


def _one(tmp_path: Path, **changed: Any) -> Any:
    table = write_rows(tmp_path / mlx_benchmark.TABLE.files[0], [operator(**changed)])
    return mlx_benchmark.read_mlx_benchmark(table)


def test_a_product_with_one_matrix_is_a_plain_product(tmp_path: Path) -> None:
    (kernel,) = _one(tmp_path).kernels
    assert (kernel.op, kernel.dtype, kernel.kernel) == ("gemm", "fp32", "mlx 0.12.2")
    assert kernel.shape == {"m": 20 * 64, "n": 32, "k": 256}
    # 16 of 19 cores.
    assert kernel.accelerator == "Apple-M2-Pro-16-Core-GPU"
    assert kernel.time_s == pytest.approx(250e-6)


@pytest.mark.parametrize(
    ("operation", "shape", "op", "extents"),
    [
        ("MatMul", "dim=9x64x16 dim=9x16x8", "bmm", {"batch": 9, "m": 64, "n": 8, "k": 16}),
        ("Linear", "dim=9x64x16 dim=16x8 dim=8", "gemm", {"m": 576, "n": 8, "k": 16}),
        (
            "Conv2d",
            "dim=5x28x30x3 dim=8x3x3x3",
            "conv2d",
            {
                "batch": 5, "c_in": 3, "c_out": 8, "kernel": 3, "stride": 1, "pad": 0,
                "height_out": 26, "width_out": 28,
            },
        ),
        ("Softmax", "dim=4x5x6 axi=-1", "softmax", {"rows": 20, "width": 6}),
        ("ReLU", "dim=4x5x6", "relu", {"rows": 20, "width": 6, "inputs": 1}),
    ],
)  # fmt: skip
def test_extents(
    tmp_path: Path, operation: str, shape: str, op: str, extents: dict[str, float]
) -> None:
    (kernel,) = _one(tmp_path, operation=operation, shape=shape, backend="mps").kernels
    assert (kernel.op, kernel.shape, kernel.kernel) == (op, extents, "mps torch 2.1.2")


def test_pytorch_convolves_in_tf32_where_the_card_has_it(tmp_path: Path) -> None:
    said = {"operation": "Conv2d", "shape": "dim=5x28x28x3 dim=8x3x3x3", "backend": "cuda"}
    (ampere,) = _one(tmp_path, chip="A100 80GB 80GB PCIe (Server)", **said).kernels
    (volta,) = _one(tmp_path, chip="Tesla V100 PCIe (32Go / Xeon)", **said).kernels
    assert (ampere.accelerator, ampere.dtype) == ("A100-PCIe-80GB", "tf32")
    assert (volta.accelerator, volta.dtype) == ("V100-PCIe-32GB", "fp32")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"backend": "cpu"}, "cpu"),
        ({"backend": "mlx_gpu_compile"}, "mlx_gpu_compile"),
        ({"operation": "Sort"}, "Sort"),
        ({"chip": "M1 Max (64GB) mlx 0.2.0"}, "how many cores"),
        ({"chip": "M2 Pro (cores: 4E+6P+15GPU)"}, "no M2 Pro with 15"),
        ({"value": 0.09}, "shorter"),
        ({"unit": "s"}, "unit"),
    ],
)
def test_operators_that_are_not_understood(tmp_path: Path, changed: Any, reason: str) -> None:
    found = _one(tmp_path, **changed)
    assert not found.kernels
    assert reason in found.rejected[0].reason


def _compass(tmp_path: Path, line: str) -> Any:
    (tmp_path / llmcompass.TABLE.files[0]).write_text(f"{HEADER}\n{line}\n")
    return llmcompass.read_llmcompass(tmp_path)


def test_a_product_of_llmcompass_states_its_time(tmp_path: Path) -> None:
    (kernel,) = _compass(tmp_path, "matmul,MI210,64,256,128,0.5,9.9").kernels
    assert (kernel.op, kernel.accelerator, kernel.dtype) == ("gemm", "MI210", "fp16")
    assert kernel.shape == {"m": 64, "n": 256, "k": 128}
    assert kernel.time_s == pytest.approx(500e-6)


def test_a_rate_is_billions_of_elements_a_second(tmp_path: Path) -> None:
    (softmax,) = _compass(tmp_path, "softmax,A100,1000,2000,,,100.0").kernels
    (gelu,) = _compass(tmp_path, "gelu,A100,1000000,,,,100.0").kernels
    assert (softmax.shape, softmax.time_s) == ({"rows": 1000, "width": 2000}, pytest.approx(2e-5))
    assert gelu.shape == {"rows": 1, "width": 1000000, "inputs": 1}
    assert gelu.time_s == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("gelu,MI210,1024,,,,100.0", "two element types"),
        ("rope,A100,1024,2,,,100.0", "rope"),
        ("matmul,TPUv3,1,2,3,0.1,1.0", "TPUv3"),
    ],
)
def test_rows_of_llmcompass_that_are_not_understood(tmp_path: Path, line: str, reason: str) -> None:
    found = _compass(tmp_path, line)
    assert not found.kernels
    assert reason in found.rejected[0].reason


@pytest.mark.skipif(not FOLDER, reason="PERFMODEL_DATA names no folder of tables")
@pytest.mark.parametrize(("name", "least"), [("mlx-benchmark", 300), ("llmcompass", 50)])
def test_no_published_kernel_beats_its_roofline(name: str, least: int) -> None:
    imported = read_format(name, Path(str(FOLDER)))
    measured = measured_calls(imported.kernels)
    assert len(measured) > least
    assert (kernel_roofline(measured.calls).roofline_s < measured.time_s).all()
    # The longest calls come near it: a unit that was off by ten would not.
    share = kernel_roofline(measured.calls).roofline_s / measured.time_s
    assert share.max() > 0.7


@pytest.mark.skipif(not FOLDER, reason="PERFMODEL_DATA names no folder of tables")
def test_rates_of_an_a100_fit_no_type_wider_than_sixteen_bits() -> None:
    imported = read_format("llmcompass", Path(str(FOLDER)))
    rated = [kernel for kernel in imported.kernels if kernel.op != "gemm"]
    measured = measured_calls(rated)
    roofline = kernel_roofline(measured.calls)
    for op in ("softmax", "layer_norm", "gelu"):
        rows = measured.calls.op == op
        # Twice the bytes would not fit the bandwidth.
        assert (2 * roofline.memory_s[rows] > measured.time_s[rows]).any(), op
