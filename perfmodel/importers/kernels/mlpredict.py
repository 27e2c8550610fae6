"""Import the layers of mlpredict: random convolutions and dense layers in TensorFlow 1, fp32.

Forward passes without activation and bias are taken, one operator each; with a gradient a time is
that of several. Padding 1 is TensorFlow's ``same``, 0 its ``valid``. Times include the call of a
session.

Reference: Justus et al., "Predicting the Computational Cost of Deep Learning Models", 2018;
repository CDECatapult/mlpredict, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from perfmodel.importers.kernels.kernel_tables import accelerator_named
from perfmodel.importers.public_tables import PublicTable, Row, find_tables, positive
from perfmodel.importers.published import Imported, Origin, PublishedKernel, RejectedRow

_COMMON = ("device", "precision", "optimizer", "activation_fct", "timeUsed_median", "batchsize")
_CONV = (
    "channels_in", "channels_out", "kernelsize", "matsize", "padding", "strides", "use_bias",
)  # fmt: skip
_DENSE = ("dim_input", "dim_output")


def read_mlpredict(path: Path) -> Imported:
    """Read both tables, or one of them; one kernel a row."""
    kernels: list[PublishedKernel] = []
    rejected: tuple[RejectedRow, ...] = ()
    for file in find_tables(path, tuple(_TABLES)):
        if file.name not in _TABLES:
            reason = f"no table of this format is called so; known are {', '.join(_TABLES)}"
            rejected += (RejectedRow(file=file.name, line=0, reason=reason),)
            continue
        table, op, shape = _TABLES[file.name]
        made, others = table.records(file, partial(_kernel, op=op, shape=shape))
        kernels, rejected = kernels + made, rejected + others
    return Imported(kernels=tuple(kernels), rejected=rejected)


def _kernel(
    row: Row, origin: Origin, *, op: str, shape: Callable[[Row], Mapping[str, float]]
) -> PublishedKernel:
    if row["optimizer"] or row["activation_fct"] or row.get("use_bias"):
        raise ValueError("several operators in one time")
    if row["precision"] != 32:
        raise ValueError(f"precision is {row['precision']!r}; understood is 32")
    return PublishedKernel(
        op=op,
        accelerator=accelerator_named(row["device"]),
        dtype="fp32",
        shape=shape(row),
        time_s=positive(row, "timeUsed_median") * 1e-3,
        origin=origin,
        kernel="tensorflow 1",
    )


def _conv(row: Row) -> Mapping[str, float]:
    size, kernel, stride = (positive(row, n) for n in ("matsize", "kernelsize", "strides"))
    out = -(-size // stride) if row["padding"] else (size - kernel) // stride + 1
    if out < 1:
        raise ValueError(f"{size:g} pixels with a kernel of {kernel:g} have no output")
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


def _table(file: str, columns: tuple[str, ...]) -> PublicTable:
    return PublicTable(
        files=(file,),
        source="CDECatapult/mlpredict prediction_model/data",
        licence="Apache-2.0",
        columns=(*_COMMON, *columns),
        optional=(),
    )


_TABLES: Mapping[str, tuple[PublicTable, str, Callable[[Row], Mapping[str, float]]]] = {
    name: (_table(name, columns), op, shape)
    for name, columns, op, shape in (
        ("mlpredict_conv.parquet", _CONV, "conv2d", _conv),
        ("mlpredict_dense.parquet", _DENSE, "gemm", _dense),
    )
}
