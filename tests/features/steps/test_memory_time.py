"""Time of the traffic of rows, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.memory_time import (
    CACHE_BYTES_PER_CORE_CYCLE,
    cache_of,
    memory_time_s,
    reuse_of_rows,
)
from perfmodel.features.steps.sketch import step_sketch

CARD = AcceleratorSpec(
    name="made-up-gpu", kind="gpu", vendor="none", architecture="none", form_factor="none",
    year=None, peak_flops={"fp16": 120e12, "fp32": 15e12}, memory_bytes=16e9,
    bandwidth_bytes_per_s=1e12, cache_bytes=50e6, core_count=100, clock_hz=2e9, tdp_w=300.0,
)  # fmt: skip


def _time(moved: float, share: float, distance: float, cache: tuple[float, float]) -> float:
    of_row, of_step = (np.array(pair)[:, None] for pair in ((share, distance), cache))
    return float(memory_time_s(np.array([moved]), np.array([1e12]), of_row, of_step)[0])


def test_traffic_by_hand() -> None:
    # 100 MB, of which 60 % were used 200 MB ago: a cache of 50 MB holds a quarter of that, 15 MB.
    # 85 MB at 1 TB/s are 85 us, 15 MB at 3 TB/s 5 us.
    assert _time(100e6, 0.6, 200e6, (50e6, 3e12)) == pytest.approx(90e-6)
    # Used 10 MB ago: all of it lies there. 40 us and 20 us.
    assert _time(100e6, 0.6, 10e6, (50e6, 3e12)) == pytest.approx(60e-6)


def test_without_a_known_cache_all_traffic_reaches_the_memory() -> None:
    unlike = ({"cache_bytes": None}, {"core_count": None}, {"clock_hz": None}, {"kind": "cpu"})
    for changes in unlike:
        cache = cache_of(replace(CARD, **changes))  # type: ignore[arg-type]
        assert _time(100e6, 1.0, 1.0, cache) == 100e6 / 1e12


def test_a_cache_is_never_slower_than_the_memory() -> None:
    size, bandwidth = cache_of(CARD)
    assert (size, bandwidth) == (50e6, CACHE_BYTES_PER_CORE_CYCLE * 100 * 2e9)
    assert cache_of(replace(CARD, clock_hz=1e3))[1] == CARD.bandwidth_bytes_per_s


def test_what_training_writes_waits_in_the_memory() -> None:
    by_mode = {}
    for training in (False, True):
        sketch = step_sketch(made_up.mlp(32, [64, 128, 16], "relu", training=training))
        by_mode[training] = reuse_of_rows(sketch)[:, 0]
    assert (by_mode[False] == 1.0).all()
    assert (by_mode[True] < 1.0).any()
    # A product of 32 x 64 and 64 x 128 reads 10,240 numbers and writes 4,096.
    assert np.isclose(by_mode[True], 10_240 / 14_336, rtol=0.03).any()


def test_a_larger_cache_and_a_nearer_use_never_take_longer() -> None:
    shares = np.linspace(0.0, 1.0, 5)
    for share in shares:
        by_cache = [_time(1e8, share, 1e8, (size, 3e12)) for size in np.geomspace(1e6, 1e9, 20)]
        by_use = [_time(1e8, share, d, (50e6, 3e12)) for d in np.geomspace(1e9, 1e6, 20)]
        assert by_cache == sorted(by_cache, reverse=True)
        assert by_use == sorted(by_use, reverse=True)
