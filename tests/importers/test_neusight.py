from pathlib import Path
from typing import Any

import pytest
from importers.tidy_tables import write_rows

from perfmodel.errors import StoreError
from perfmodel.importers.kernels.neusight import TABLE, read_neusight

(FILE,) = TABLE.files


def row(**changed: Any) -> dict[str, Any]:
    """Return a made-up bmm row with the columns of every operator."""
    plain: dict[str, Any] = {
        "device": "T4", "op": "bmm", "dtype": "fp32", "B": 7, "M": 33.0, "N": 65.0, "K": 17.0,
        "H": None, "conv_cin": None, "conv_cout": None, "conv_kernel": None, "conv_hw": None,
        "conv_stride": None, "conv_pad": None, "latency_ms": 0.25, "kernel": "some_sgemm",
        "torch": "p2.1.0",
    }  # fmt: skip
    return {**plain, **changed}


def test_units_shapes_and_origin(tmp_path: Path) -> None:
    (kernel,) = read_neusight(write_rows(tmp_path / FILE, [row()])).kernels
    assert (kernel.op, kernel.accelerator, kernel.dtype) == ("bmm", "T4", "fp32")
    assert kernel.shape == {"batch": 7, "m": 33, "n": 65, "k": 17}
    assert kernel.time_s == pytest.approx(250e-6)  # 0.25 ms
    assert kernel.kernel == "torch 2.1.0 some_sgemm"
    assert (kernel.origin.file, kernel.origin.line, kernel.origin.licence) == (FILE, 1, "MIT")


def test_forms_with_a_scalar_read_one_tensor(tmp_path: Path) -> None:
    wide = {"M": None, "N": None, "K": None, "B": 11, "H": 13.0}
    rows = [row(op=op, **wide) for op in ("add", "addu", "gelu", "ln")]
    write_rows(tmp_path / FILE, rows)
    kernels = read_neusight(tmp_path).kernels
    assert [(k.op, k.shape.get("inputs")) for k in kernels] == [
        ("add", 2), ("add", 1), ("gelu", 1), ("layer_norm", None)
    ]  # fmt: skip


def test_a_convolution_states_its_output(tmp_path: Path) -> None:
    conv = row(
        op="conv", B=2, conv_cin=5, conv_cout=6, conv_kernel=3.0, conv_hw=10.0, conv_stride=2.0,
        conv_pad=1.0,
    )  # fmt: skip
    (kernel,) = read_neusight(write_rows(tmp_path / FILE, [conv])).kernels
    # (10 + 2*1 - 3) // 2 + 1 = 5
    assert (kernel.op, kernel.shape["height_out"], kernel.shape["c_out"]) == ("conv2d", 5, 6)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"op": "einsum"}, "einsum"),
        ({"latency_ms": 0.0}, "latency_ms"),
        ({"latency_ms": float("nan")}, "latency_ms"),
        ({"M": None}, "no M"),
        ({"dtype": "fp19"}, "fp19"),
        ({"device": "T4000"}, "T4000"),
        ({"op": "linear"}, "B = 7"),
    ],
)
def test_what_is_not_understood_is_rejected_with_its_reason(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    imported = read_neusight(write_rows(tmp_path / FILE, [row(), row(**changed)]))
    assert len(imported.kernels) == 1
    (rejected,) = imported.rejected
    assert rejected.line == 2
    assert reason in rejected.reason


def test_no_table_and_another_table_are_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=FILE):
        read_neusight(tmp_path)
    with pytest.raises(StoreError, match="lacks the columns"):
        read_neusight(write_rows(tmp_path / FILE, [{"device": "T4"}]))
    (tmp_path / FILE).write_bytes(b"not parquet")
    with pytest.raises(StoreError, match="Parquet"):
        read_neusight(tmp_path)
