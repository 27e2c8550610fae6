"""Import LLMCompass: operators of language models on an A100 and an MI210.

Products state their time, in fp16. Softmax, layer norms and GELU state a rate without a unit: the
scripts beside the tables draw it as billions of elements a second, and what the A100 reaches fits
its memory in no type wider than fp16. On the MI210 both fp16 and fp32 would fit, so that the rates
of the MI210 are left out. Calls were timed one by one from a host that takes 10 to 50 us.

Reference: Zhang et al., "LLMCompass: Enabling Efficient Hardware Design for Large Language Model
Inference", 2024; repository PrincetonUniversity/LLMCompass, ``ae/figure5``, BSD-3-Clause.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedKernel

TABLE = PublicTable(
    files=("llmcompass_kernels.csv", "llmcompass_kernels.parquet"),
    source="PrincetonUniversity/LLMCompass ae/figure5",
    licence="BSD-3-Clause",
    columns=("op", "device", "M", "N", "K", "latency_ms", "throughput"),
)
#: The scripts name an A100 of 80 GB beside others joined by NVLink.
_DEVICES: Mapping[str, str] = MappingProxyType({"A100": "A100-SXM4-80GB", "MI210": "MI210"})
_RATED: Mapping[str, str] = MappingProxyType(
    {"softmax": "softmax", "layernorm": "layer_norm", "gelu": "gelu"}
)
#: Device whose rates have one possible element type.
_RATED_DEVICE = "A100"
_ELEMENTS_PER_UNIT = 1e9


def read_llmcompass(path: Path) -> Imported:
    """Read the table, or that of a folder; one kernel a row."""
    kernels, rejected = TABLE.records(path, _kernel)
    return Imported(kernels=tuple(kernels), rejected=rejected)


def _kernel(row: Row, origin: Origin) -> PublishedKernel:
    op, device = text(row, "op"), text(row, "device")
    if device not in _DEVICES:
        raise ValueError(f"device {device!r} is not understood")
    name, shape, time_s = _product(row) if op == "matmul" else _rated(row, op, device)
    return PublishedKernel(
        op=name,
        accelerator=_DEVICES[device],
        dtype="fp16",
        shape=shape,
        time_s=time_s,
        origin=origin,
        kernel="llmcompass",
    )


_Timed = tuple[str, Mapping[str, float], float]


def _product(row: Row) -> _Timed:
    shape = {name.lower(): float(count(row, name)) for name in ("M", "N", "K")}
    return "gemm", shape, positive(row, "latency_ms") * 1e-3


def _rated(row: Row, op: str, device: str) -> _Timed:
    if op not in _RATED:
        raise ValueError(f"op {op!r} is not understood")
    if device != _RATED_DEVICE:
        raise ValueError(f"the rate of {op} fits two element types on {device}")
    rows, width = (1, count(row, "M")) if op == "gelu" else (count(row, "M"), count(row, "N"))
    shape = {"rows": float(rows), "width": float(width)}
    if op == "gelu":
        shape["inputs"] = 1.0
    return _RATED[op], shape, rows * width / (positive(row, "throughput") * _ELEMENTS_PER_UNIT)
