"""DeepBench and mlpredict: products and convolutions of older libraries."""

from pathlib import Path
from typing import Any

import pytest
from importers.tidy_tables import write_rows

from perfmodel.importers.kernels import deepbench, mlpredict

(DEEPBENCH,) = deepbench.TABLE.files


def bench(**changed: Any) -> dict[str, Any]:
    """Return a made-up forward convolution."""
    plain: dict[str, Any] = {
        "device": "TitanX_Pascal", "op": "conv", "precision": "Float", "M": None, "N": 4.0,
        "K": 32.0, "time_ms": None, "fwd_ms": 0.5, "W": 28.0, "H": 14.0, "C": 8.0, "R": 3.0,
        "S": 3.0, "pad_w": 1.0, "pad_h": 1.0, "stride_w": 2.0, "stride_h": 2.0,
    }  # fmt: skip
    return {**plain, **changed}


def layer(**changed: Any) -> dict[str, Any]:
    """Return a made-up dense layer, forward."""
    plain: dict[str, Any] = {
        "device": "K80", "precision": 32, "optimizer": 0, "activation_fct": 0,
        "timeUsed_median": 0.25, "batchsize": 5, "dim_input": 7, "dim_output": 11,
    }  # fmt: skip
    return {**plain, **changed}


def conv(**changed: Any) -> dict[str, Any]:
    """Return a made-up convolution layer, forward."""
    wide = {
        "channels_in": 3, "channels_out": 4, "kernelsize": 4, "matsize": 9, "padding": 0,
        "strides": 2, "use_bias": False,
    }  # fmt: skip
    return {**layer(), **wide, **changed}


def test_a_convolution_of_deepbench(tmp_path: Path) -> None:
    (kernel,) = deepbench.read_deepbench(write_rows(tmp_path / DEEPBENCH, [bench()])).kernels
    assert (kernel.op, kernel.accelerator, kernel.dtype) == ("conv2d", "TITAN-X-Pascal", "fp32")
    # (14 + 2 - 3) // 2 + 1 = 7, (28 + 2 - 3) // 2 + 1 = 14
    assert kernel.shape == {
        "batch": 4, "c_in": 8, "c_out": 32, "kernel": 3, "stride": 2, "pad": 1,
        "height_out": 7, "width_out": 14,
    }  # fmt: skip
    assert kernel.time_s == pytest.approx(500e-6)


def test_a_product_of_deepbench_on_tensor_cores(tmp_path: Path) -> None:
    half = "16 bit inputs, 16 bit multiplication, 32 bit addition"
    row = bench(op="gemm", device="T4", precision=half, M=3.0, time_ms=0.25)
    (kernel,) = deepbench.read_deepbench(write_rows(tmp_path / DEEPBENCH, [row])).kernels
    assert (kernel.op, kernel.dtype, kernel.kernel) == ("gemm", "fp16", "deepbench")
    assert kernel.shape == {"m": 3, "n": 4, "k": 32}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"op": "rnn"}, "rnn"),
        ({"S": 5.0}, "not square"),
        ({"H": 1.0, "pad_h": 0.0, "pad_w": 0.0}, "no output"),
        ({"fwd_ms": None}, "fwd_ms"),
        ({"device": "KNL7250"}, "KNL7250"),
    ],
)
def test_rows_that_are_not_understood(tmp_path: Path, changed: Any, reason: str) -> None:
    found = deepbench.read_deepbench(write_rows(tmp_path / DEEPBENCH, [bench(**changed)]))
    assert not found.kernels
    assert reason in found.rejected[0].reason


def test_layers_of_mlpredict(tmp_path: Path) -> None:
    write_rows(tmp_path / "mlpredict_dense.parquet", [layer()])
    write_rows(tmp_path / "mlpredict_conv.parquet", [conv(), conv(padding=1)])
    valid, same, dense = mlpredict.read_mlpredict(tmp_path).kernels
    # valid: (9 - 4) // 2 + 1 = 3; same: 9 / 2 rounded up
    assert (valid.shape["height_out"], same.shape["height_out"]) == (3, 5)
    assert (valid.shape["pad"], same.shape["pad"]) == (0, 2)
    assert dense.shape == {"m": 5, "n": 11, "k": 7}
    assert (dense.accelerator, dense.kernel) == ("K80", "tensorflow 1")


@pytest.mark.parametrize("changed", [{"optimizer": 1}, {"activation_fct": 2}, {"precision": 16}])
def test_times_of_several_operators_are_left_out(tmp_path: Path, changed: Any) -> None:
    table = write_rows(tmp_path / "mlpredict_dense.parquet", [layer(**changed)])
    found = mlpredict.read_mlpredict(table)
    assert not found.kernels
    assert len(found.rejected) == 1


def test_a_table_of_mlpredict_under_another_name_is_said_to_be_unknown(tmp_path: Path) -> None:
    (tmp_path / "renamed.parquet").write_bytes(b"")
    (rejected,) = mlpredict.read_mlpredict(tmp_path / "renamed.parquet").rejected
    assert rejected.file == "renamed.parquet"
    assert "known are mlpredict_conv.parquet, mlpredict_dense.parquet" in rejected.reason
