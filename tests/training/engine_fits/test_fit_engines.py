"""The fit of the law of engines, on steps that a known law made up."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.predictors.engines.engine_kernels import EngineKernels
from perfmodel.predictors.engines.engine_law import EngineLaw
from perfmodel.training.engine_fits.fit_engines import (
    EngineRow,
    errors_left_out,
    errors_of,
    fit_law,
)
from perfmodel.types import Compiler, Mode, Precision

DEVICES = ("T4", "A10", "A30", "A100-SXM4-80GB", "L4", "H100-SXM5-80GB", "Quadro-RTX-8000")
TRUTH = EngineLaw(
    matmul_share=0.5, convolution_share=0.8, bandwidth_share=0.7, operation_j=8e-13, byte_j=3e-11,
    yearly=0.85, cache_bytes=5e7, sharpness=4.0, launch_s=5e-6,
)  # fmt: skip


def _rows() -> list[EngineRow]:
    rows = []
    for name in DEVICES:
        for is_convolution in (True, False):
            for batch in (1, 1024):
                job = Job(
                    model="zoo/one", mode=Mode.INFERENCE, batch_size=batch,
                    precision=Precision.INT8, compiler=Compiler.TENSORRT,
                )  # fmt: skip
                kernels = EngineKernels(
                    flops=batch * np.array([2e8, 4e8, 0.0]),
                    elements=batch * np.array([8e5, 2e5, 5e5]) + 1e6,
                    given=np.array([1e6, 1e6, 0.0]),
                    is_convolution=np.array([is_convolution, is_convolution, False]),
                    is_known=True,
                )
                spec = Catalog.default().get(name)
                time_s = TRUTH.time_s(kernels, spec, job.precision)
                rows.append(EngineRow(job=job, spec=spec, kernels=kernels, step_time_s=time_s))
    return rows


def test_a_known_law_is_found_again() -> None:
    rows = _rows()
    law = fit_law(rows)
    assert np.abs(errors_of(law, rows)).mean() < 0.05
    assert law.launch_s == pytest.approx(TRUTH.launch_s, rel=0.25)
    assert law.convolution_share > law.matmul_share


def test_a_chip_left_out_is_not_learned_from() -> None:
    rows = _rows()
    odd = [
        EngineRow(
            job=row.job, spec=row.spec, kernels=row.kernels,
            step_time_s=row.step_time_s * (3.0 if row.spec.name == "T4" else 1.0),
        )
        for row in rows
        if row.spec.name != "Quadro-RTX-8000"
    ]  # fmt: skip
    errors = errors_left_out(odd)
    mine = [error for error, row in zip(errors, odd, strict=True) if row.spec.name == "T4"]
    # Steps of the T4 were made three times as long, which no law without it can know.
    assert np.mean(mine) == pytest.approx(-np.log(3.0), abs=0.3)
