"""Import DeepBench: matrix products and convolutions of 2016 to 2019, of vendors' libraries.

Training sheets in full precision, and with 16-bit inputs on tensor cores; forward convolutions
whose filter, stride and padding are square. Extents are those of :mod:`.neusight`.

Reference: repository baidu-research/DeepBench, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from perfmodel.importers.kernels.kernel_tables import accelerator_named, word
from perfmodel.importers.public_tables import PublicTable, Row, positive
from perfmodel.importers.published import Imported, Origin, PublishedKernel

TABLE = PublicTable(
    files=("deepbench_ops.parquet",),
    source="baidu-research/DeepBench results",
    licence="Apache-2.0",
    columns=("device", "op", "precision", "M", "N", "K", "time_ms", "fwd_ms"),
    optional=("W", "H", "C", "R", "S", "pad_w", "pad_h", "stride_w", "stride_h"),
)
_DTYPES = {"Float": "fp32", "16 bit inputs, 16 bit multiplication, 32 bit addition": "fp16"}
#: Names of cards that the catalogue has under others.
_NAMES = {"TitanX": "GTX-TITAN-X", "TitanX_Pascal": "TITAN-X-Pascal"}


def read_deepbench(path: Path) -> Imported:
    """Read the table, or that of a folder; one kernel a row."""
    kernels, rejected = TABLE.records(path, _kernel)
    return Imported(kernels=tuple(kernels), rejected=rejected)


def _kernel(row: Row, origin: Origin) -> PublishedKernel:
    op, time, shape = word(row, "op", _OPERATORS)
    name = str(row["device"])
    return PublishedKernel(
        op=op,
        accelerator=accelerator_named(_NAMES.get(name, name)),
        dtype=word(row, "precision", _DTYPES),
        shape=shape(row),
        time_s=positive(row, time) * 1e-3,
        origin=origin,
        kernel="deepbench",
    )


def _gemm(row: Row) -> Mapping[str, float]:
    return {name.lower(): positive(row, name) for name in ("M", "N", "K")}


def _conv(row: Row) -> Mapping[str, float]:
    kernel, stride, pad = (_square(row, *pair) for pair in (("R", "S"), _STRIDES, _PADS))
    return {
        "batch": positive(row, "N"),
        "c_in": positive(row, "C"),
        "c_out": positive(row, "K"),
        "kernel": kernel,
        "stride": stride,
        "pad": pad,
        "height_out": _outputs(positive(row, "H"), kernel, stride, pad),
        "width_out": _outputs(positive(row, "W"), kernel, stride, pad),
    }


_STRIDES, _PADS = ("stride_h", "stride_w"), ("pad_h", "pad_w")


def _square(row: Row, high: str, wide: str) -> float:
    if row[high] is None or row[high] != row[wide]:
        raise ValueError(f"{high} and {wide} are {row[high]} and {row[wide]}; not square")
    return float(row[high])


def _outputs(size: float, kernel: float, stride: float, pad: float) -> float:
    out = (size + 2 * pad - kernel) // stride + 1
    if out < 1:
        raise ValueError(f"{size:g} pixels with a kernel of {kernel:g} have no output")
    return out


_OPERATORS: Mapping[str, tuple[str, str, Callable[[Row], Mapping[str, float]]]] = {
    "gemm": ("gemm", "time_ms", _gemm),
    "conv": ("conv2d", "fwd_ms", _conv),
}
