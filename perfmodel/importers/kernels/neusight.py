"""Import the operator measurements of NeuSight (single-precision forward operators).

Tensor cores were not used: ``fp32`` here means plain fp32 arithmetic. Shapes become::

    linear (M, N, K)   -> gemm        m, n, k            out[m, n] = in[m, k] w[k, n] + bias
    bmm (B, M, N, K)   -> bmm         batch, m, n, k
    conv               -> conv2d      batch, c_in, c_out, kernel, stride, pad, height_out, width_out
    ln, softmax (B, H) -> layer_norm, softmax   rows, width
    add, mul, ... (B, H)              rows, width, inputs (2; 1 in the forms with a scalar, "addu")

Reference: Lee et al., "Forecasting GPU Performance for Deep Learning Training and Inference",
ASPLOS 2025; repository sitar-lab/NeuSight, MIT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from perfmodel.importers.kernels.kernel_tables import accelerator_named, joined, word
from perfmodel.importers.public_tables import PublicTable, Row, positive
from perfmodel.importers.published import Imported, Origin, PublishedKernel

TABLE = PublicTable(
    files=("neusight_ops.parquet",),
    source="sitar-lab/NeuSight scripts/asplos",
    licence="MIT",
    columns=("device", "op", "dtype", "B", "latency_ms"),
    optional=(
        "M", "N", "K", "H", "conv_cin", "conv_cout", "conv_kernel", "conv_hw", "conv_stride",
        "conv_pad", "kernel", "torch",
    ),
)  # fmt: skip
_DTYPES = {"fp32": "fp32"}


def read_neusight(path: Path) -> Imported:
    """Read the operator table, or that of a folder; one kernel a row."""
    kernels, rejected = TABLE.records(path, _kernel)
    return Imported(kernels=tuple(kernels), rejected=rejected)


def _kernel(row: Row, origin: Origin) -> PublishedKernel:
    op, shape = word(row, "op", OPERATORS)
    torch = str(row["torch"] or "").removeprefix("p")
    return PublishedKernel(
        op=op,
        accelerator=accelerator_named(row["device"]),
        dtype=word(row, "dtype", _DTYPES),
        shape=shape(row),
        time_s=positive(row, "latency_ms") * 1e-3,
        origin=origin,
        kernel=joined("torch", torch, row["kernel"]),
    )


def _gemm(row: Row) -> Mapping[str, float]:
    if positive(row, "B") != 1:
        raise ValueError(f"a linear layer with B = {row['B']}; only 1 is understood")
    return {name.lower(): positive(row, name) for name in ("M", "N", "K")}


def _bmm(row: Row) -> Mapping[str, float]:
    matrices = {name.lower(): positive(row, name) for name in ("M", "N", "K")}
    return {"batch": positive(row, "B"), **matrices}


def _conv(row: Row) -> Mapping[str, float]:
    size, kernel = positive(row, "conv_hw"), positive(row, "conv_kernel")
    stride, pad = positive(row, "conv_stride"), float(row["conv_pad"])
    out = (size + 2 * pad - kernel) // stride + 1
    if out < 1:
        raise ValueError(f"a convolution of {size:g} pixels with kernel {kernel:g} has no output")
    return {
        "batch": positive(row, "B"),
        "c_in": positive(row, "conv_cin"),
        "c_out": positive(row, "conv_cout"),
        "kernel": kernel,
        "stride": stride,
        "pad": pad,
        "height_out": out,
        "width_out": out,
    }


def _rows(row: Row) -> Mapping[str, float]:
    return {"rows": positive(row, "B"), "width": positive(row, "H")}


def _one_input(row: Row) -> Mapping[str, float]:
    return {**_rows(row), "inputs": 1.0}


def _two_inputs(row: Row) -> Mapping[str, float]:
    return {**_rows(row), "inputs": 2.0}


_ShapeReader = Callable[[Row], Mapping[str, float]]
#: Operator of the table to our word and the reader of its shape.
OPERATORS: Mapping[str, tuple[str, _ShapeReader]] = MappingProxyType(
    {
        "linear": ("gemm", _gemm),
        "bmm": ("bmm", _bmm),
        "conv": ("conv2d", _conv),
        "ln": ("layer_norm", _rows),
        "softmax": ("softmax", _rows),
        **{name: (name, _two_inputs) for name in ("add", "div", "mul", "pow")},
        **{f"{name}u": (name, _one_input) for name in ("add", "div", "mul", "pow")},
        **{name: (name, _one_input) for name in ("gelu", "relu", "tanh")},
    }
)
