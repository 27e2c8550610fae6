"""Precisions that a profiler can really run, and the switches that they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perfmodel.errors import MeasurementError
from perfmodel.graph.job import Job
from perfmodel.types import Precision

#: Precisions whose step is quantised by libraries that no profiler drives.
_QUANTISED = (Precision.FP8, Precision.INT8)


def refuse_quantised(job: Job) -> None:
    """Refuse to run a job in a type that it would not be computed in.

    Raises
    ------
    MeasurementError
        fp8 and int8: PyTorch would compute them in bf16 under their name.
    """
    if job.precision in _QUANTISED:
        raise MeasurementError(
            f"No profiler quantises a model to {job.precision}: its step would run in bf16. "
            "Measure bf16, or report what your own quantised job reaches with "
            "`POST /v1/observations`."
        )


@contextmanager
def matrix_units(precision: Precision) -> Iterator[str]:
    """Switch TF32 on for tf32 and off for everything else, and say so.

    PyTorch's defaults differ between products (off) and convolutions (on), and change between
    versions; fp32 here means fp32 in both.

    Yields
    ------
    str
        ``"tf32=on"`` or ``"tf32=off"``, for the record.
    """
    import torch

    on = precision is Precision.TF32
    products = torch.get_float32_matmul_precision()
    convolutions = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if on else "highest")
    torch.backends.cudnn.allow_tf32 = on
    try:
        yield f"tf32={'on' if on else 'off'}"
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
