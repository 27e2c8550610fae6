"""The law of tuned engines, against its arithmetic and its own laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.predictors.engines.engine_kernels import EngineKernels
from perfmodel.predictors.engines.engine_law import EngineLaw, is_covered
from perfmodel.types import Precision

CATALOG = Catalog.default()
LAW = EngineLaw(
    matmul_share=0.5, convolution_share=0.8, bandwidth_share=0.5, operation_j=1e-15, byte_j=1e-15,
    yearly=0.9, cache_bytes=1e12, sharpness=50.0, launch_s=1e-6,
)  # fmt: skip


def _kernel(flops: float, elements: float, given: float = 0.0) -> EngineKernels:
    return EngineKernels(
        flops=np.array([flops]),
        elements=np.array([elements]),
        given=np.array([given]),
        is_convolution=np.array([False]),
        is_known=True,
    )


def test_each_time_alone() -> None:
    t4 = CATALOG.get("T4")
    # 130e12 operations at half of 130e12 a second: 2 s; in fp16 at half of 65e12: 4 s.
    assert LAW.time_s(_kernel(130e12, 1.0), t4, Precision.INT8) == pytest.approx(2.0, rel=1e-4)
    assert LAW.time_s(_kernel(130e12, 1.0), t4, Precision.FP16) == pytest.approx(4.0, rel=1e-4)
    # 320e9 elements at half of 320e9 bytes a second.
    assert LAW.time_s(_kernel(0.0, 320e9), t4, Precision.INT8) == pytest.approx(2.0, rel=1e-4)
    # 1e15 operations of 1e-12 J at 70 W, two years before 2020.
    hungry = replace(LAW, operation_j=1e-12)
    energy_s = 1e3 / 70 / 0.9**2
    assert hungry.time_s(_kernel(1e15, 1.0), t4, Precision.INT8) >= energy_s
    assert hungry.time_s(_kernel(1e15, 1.0), t4, Precision.INT8) < 1.05 * energy_s


def test_a_type_without_units_is_computed_as_it_stands_in() -> None:
    volta = CATALOG.get("V100-SXM2-16GB")
    work = _kernel(1e12, 1e9)
    in_int8, in_fp16 = (LAW.time_s(work, volta, p) for p in (Precision.INT8, Precision.FP16))
    assert in_int8 == in_fp16 if volta.rate_of(Precision.INT8) == "fp16" else in_int8 < in_fp16


@pytest.mark.parametrize("better", ["tdp_w", "bandwidth_bytes_per_s", "cache_bytes"])
def test_a_better_device_is_not_slower(better: str) -> None:
    card = CATALOG.get("A10")
    raised = replace(card, **{better: 2 * getattr(card, better)})
    of_weights = _kernel(1e9, 1e9, given=8e8)
    for work in (_kernel(1e12, 1e6), _kernel(1e9, 1e9), _kernel(1e12, 1e10), of_weights):
        now = LAW.time_s(work, card, Precision.INT8)
        assert LAW.time_s(work, raised, Precision.INT8) <= now


@pytest.mark.parametrize("name", ["RTX-4090", "L4", "H100-SXM5-80GB", "B200-SXM", "T4"])
def test_weights_larger_than_the_cache_come_from_memory(name: str) -> None:
    card = CATALOG.get(name)
    law = replace(LAW, cache_bytes=4e7, bandwidth_share=1.0)
    # A token of a language model: 8e9 weights of two bytes in 200 products, each read once.
    weights = np.full(200, 4e7)
    kernels = EngineKernels(
        flops=2 * weights,
        elements=weights + 1e4,
        given=weights,
        is_convolution=np.zeros(200, dtype=bool),
        is_known=True,
    )
    least_s = (2 * weights.sum() - (card.cache_bytes or 0.0)) / card.bandwidth_bytes_per_s
    assert law.roofline_s(kernels, card, Precision.FP16) >= least_s
    assert law.time_s(kernels, card, Precision.FP16) >= least_s


def test_weights_within_the_cache_are_kept_there() -> None:
    card = CATALOG.get("H100-SXM5-80GB")
    law = replace(LAW, cache_bytes=4e7)
    within, of_others = _kernel(0.0, 1e7, given=1e7), _kernel(0.0, 1e7)
    times = [law.time_s(one, card, Precision.INT8) for one in (within, of_others)]
    assert times[0] == times[1]


def test_whom_it_speaks_of() -> None:
    assert is_covered(CATALOG.get("T4"), Precision.INT8)
    assert not is_covered(CATALOG.get("T4"), Precision.FP32)
    assert not is_covered(CATALOG.get("MI300X"), Precision.INT8)
    assert not is_covered(replace(CATALOG.get("T4"), tdp_w=None), Precision.INT8)
