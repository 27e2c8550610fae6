"""Import the layers of mlpredict: random convolutions and dense layers in TensorFlow 1, fp32.

Forward passes without activation and bias are taken, one operator each; with a gradient a time is
that of several. Padding 1 is TensorFlow's ``same``, 0 its ``valid``. Times include the call of a
session.

Reference: Justus et al., "Predicting the Computational Cost of Deep Learning Models", 2018;
repository CDECatapult/mlpredict, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.kernels.kernel_tables import (
    UnreadableRowError,
    positive,
    table_rows,
    tidy_files,
)
from perfmodel.importers.public_tables import Row, understood
from perfmodel.importers.published import Imported, Origin, PublishedKernel, RejectedRow

SOURCE = "CDECatapult/mlpredict prediction_model/data"
LICENCE = "Apache-2.0"

_COMMON = ("device", "precision", "optimizer", "activation_fct", "timeUsed_median", "batchsize")
_CONV = (
    "channels_in", "channels_out", "kernelsize", "matsize", "padding", "strides", "use_bias",
)  # fmt: skip
_DENSE = ("dim_input", "dim_output")


def read_mlpredict(path: Path) -> Imported:
    """Read both tables, or one of them; one kernel a row."""
    canonical = cache(Catalog.default().canonical_name)
    rejected: list[RejectedRow] = []
    kernels: list[PublishedKernel] = []
    for file in tidy_files(path, tuple(_TABLES)):
        columns, op, shape = _TABLES[file.name]
        make = partial(_kernel, file=file.name, canonical=canonical, op=op, shape=shape)
        kernels += understood(file.name, table_rows(file, (*_COMMON, *columns)), make, rejected)
    return Imported(kernels=tuple(kernels), rejected=tuple(rejected))


def _kernel(
    row: Row,
    line: int,
    *,
    file: str,
    canonical: Callable[[str], str],
    op: str,
    shape: Callable[[Row], Mapping[str, float]],
) -> PublishedKernel:
    if row["optimizer"] or row["activation_fct"] or row.get("use_bias"):
        raise UnreadableRowError("several operators in one time")
    if row["precision"] != 32:
        raise UnreadableRowError(f"precision is {row['precision']!r}; understood is 32")
    return PublishedKernel(
        op=op,
        accelerator=canonical(row["device"]),
        dtype="fp32",
        shape=shape(row),
        time_s=positive(row, "timeUsed_median") * 1e-3,
        origin=Origin(source=SOURCE, licence=LICENCE, file=file, line=line),
        kernel="tensorflow 1",
    )


def _conv(row: Row) -> Mapping[str, float]:
    size, kernel, stride = (positive(row, n) for n in ("matsize", "kernelsize", "strides"))
    out = -(-size // stride) if row["padding"] else (size - kernel) // stride + 1
    if out < 1:
        raise UnreadableRowError(f"{size:g} pixels with a kernel of {kernel:g} have no output")
    return {
        "batch": positive(row, "batchsize"),
        "c_in": positive(row, "channels_in"),
        "c_out": positive(row, "channels_out"),
        "kernel": kernel,
        "stride": stride,
        "pad": float(int(kernel // 2)) if row["padding"] else 0.0,
        "height_out": out,
        "width_out": out,
    }


def _dense(row: Row) -> Mapping[str, float]:
    return {
        "m": positive(row, "batchsize"),
        "n": positive(row, "dim_output"),
        "k": positive(row, "dim_input"),
    }


_TABLES: Mapping[str, tuple[tuple[str, ...], str, Callable[[Row], Mapping[str, float]]]] = {
    "mlpredict_conv.parquet": (_CONV, "conv2d", _conv),
    "mlpredict_dense.parquet": (_DENSE, "gemm", _dense),
}
