"""Import mlx-benchmark: operators in fp32 on Apple's GPUs, in MLX and in PyTorch, and on NVIDIA's.

A row is one call between two readings of a host's clock, printed to a hundredth of a millisecond;
what is shorter than ten of these is left out. Left out too are calls on processors, what MLX
compiled, operators that no formula stands for, and chips that do not say how many cores their GPU
has. PyTorch runs convolutions of fp32 in TF32 on an A100; products it does not.

Reference: repository TristanBilot/mlx-benchmark, ``benchmarks/detailed_benchmark.md``, MIT.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.kernels.kernel_tables import joined, word
from perfmodel.importers.public_tables import PublicTable, Row, positive
from perfmodel.importers.published import Imported, Origin, PublishedKernel

TABLE = PublicTable(
    files=("mlx_ops.parquet",),
    source="TristanBilot/mlx-benchmark benchmarks",
    licence="MIT",
    columns=("chip", "backend", "operation", "shape", "value", "unit"),
    optional=(),
)
#: Times are printed in steps of 0.01 ms.
_SHORTEST_MS = 0.1
#: Implementation of a backend, its version left open.
_BACKENDS: Mapping[str, str] = MappingProxyType(
    {"mlx_gpu": "mlx", "mps": "mps torch", "cuda": "torch"}
)
_SECONDS = {"ms": 1e-3}
_NVIDIA: Mapping[str, str] = MappingProxyType(
    {
        "V100 PCIe (32Go": "V100-PCIe-32GB",
        "V100 NVLink (32Go": "V100-SXM2-32GB",
        "A100 80GB": "A100-PCIe-80GB",
        "RTX 4090": "RTX-4090",
    }
)
_CHIP = re.compile(r"(M\d(?: Pro| Max| Ultra)?) \(.*?(\d+)GPU")
_Sizes = tuple[int, ...]
_Call = tuple[str, Mapping[str, float]]


def read_mlx_benchmark(path: Path) -> Imported:
    """Read the table, or that of a folder; one kernel a row."""
    kernels, rejected = TABLE.records(path, _kernel)
    return Imported(kernels=tuple(kernels), rejected=rejected)


def _kernel(row: Row, origin: Origin) -> PublishedKernel:
    implementation = word(row, "backend", _BACKENDS)
    op, shape = word(row, "operation", _OPERATORS)(_sizes(row["shape"]))
    accelerator = _device(row["chip"])
    time_s = positive(row, "value") * word(row, "unit", _SECONDS)
    if time_s < _SHORTEST_MS * 1e-3:
        raise ValueError(f"shorter than {_SHORTEST_MS} ms, which two digits do not tell")
    has_tf32 = "tf32" in Catalog.default().get(accelerator).peak_flops
    return PublishedKernel(
        op=op,
        accelerator=accelerator,
        dtype="tf32" if op == "conv2d" and has_tf32 else "fp32",
        shape=shape,
        time_s=time_s,
        origin=origin,
        kernel=joined(implementation, _version(row["chip"], implementation.split()[-1])),
    )


@cache
def _device(chip: str) -> str:
    """Return the accelerator of a heading such as ``M2 Pro (cores: 4E+6P+16GPU) mlx 0.12.2``."""
    for card, name in _NVIDIA.items():
        if card in chip:
            return name
    found = _CHIP.match(chip)
    if found is None:
        raise ValueError(f"{chip.split(' - ')[0]!r} does not say how many cores its GPU has")
    name, cores = found[1].replace(" ", "-"), int(found[2])
    for entry in (f"Apple-{name}-GPU", f"Apple-{name}-{cores}-Core-GPU"):
        spec = Catalog.default().get(entry)
        if (spec.kind, spec.core_count) == ("gpu", cores):
            return spec.name
    raise ValueError(f"the catalogue has no {found[1]} with {cores} cores of its GPU")


def _version(chip: str, library: str) -> str:
    found = re.search(rf"{library}:? (\d+(?:\.\d+)+)", chip)
    return found[1] if found else ""


def _sizes(shape: str) -> list[_Sizes]:
    """Read ``dim=1000x64x256 dim=256x32``; what is no extent is left aside."""
    return [
        tuple(int(size) for size in part.removeprefix("dim=").split("x"))
        for part in shape.split()
        if part.startswith("dim=")
    ]


def _matmul(sizes: list[_Sizes]) -> _Call:
    """Read a product; one of many rows with one matrix is a plain product of all rows."""
    (*rows, k), (*batch, _, n) = sizes
    if not batch:
        return "gemm", {"m": math.prod(rows), "n": n, "k": k}
    return "bmm", {"batch": math.prod(batch), "m": rows[-1], "n": n, "k": k}


def _linear(sizes: list[_Sizes]) -> _Call:
    return _matmul(sizes[:2])


def _conv2d(sizes: list[_Sizes]) -> _Call:
    """Read a convolution of channels last, without padding and with a stride of one."""
    (batch, height, width, c_in), (c_out, kernel, _, _) = sizes
    return "conv2d", {
        "batch": batch, "c_in": c_in, "c_out": c_out, "kernel": kernel, "stride": 1, "pad": 0,
        "height_out": height - kernel + 1, "width_out": width - kernel + 1,
    }  # fmt: skip


def _along_rows(op: str, **more: float) -> Callable[[list[_Sizes]], _Call]:
    def call(sizes: list[_Sizes]) -> _Call:
        (*rows, width) = sizes[0]
        return op, {"rows": math.prod(rows), "width": width, **more}

    return call


_OPERATORS: Mapping[str, Callable[[list[_Sizes]], _Call]] = MappingProxyType(
    {
        "MatMul": _matmul,
        "Linear": _linear,
        "Conv2d": _conv2d,
        "Softmax": _along_rows("softmax"),
        "LayerNorm": _along_rows("layer_norm"),
        "ReLU": _along_rows("relu", inputs=1),
        "Sigmoid": _along_rows("elementwise", inputs=1),
    }
)
