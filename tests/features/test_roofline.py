"""Rooflines by hand, and what the bound promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.features.node_rows import node_rows
from perfmodel.features.roofline import (
    CACHE_SPEEDUP,
    NODE_COLUMNS,
    node_roofline,
    step_bound_s,
)
from perfmodel.features.tabular import COLUMNS, workload_row, workload_rows
from perfmodel.types import Compiler, Precision

WORKLOAD = made_up.workload(made_up.mlp(64, [64, 64], "relu", training=False), 64, training=False)


def test_memory_time_by_hand() -> None:
    # relu on [64, 64]: 2 * 16 384 bytes at 2e10 B/s.
    assert node_roofline(WORKLOAD).memory_s[1] == pytest.approx(32_768 / 2e10)


def test_the_bound_grants_the_cache() -> None:
    # 32 768 bytes fit into the 32 MB cache entirely: a tenth of the memory time.
    roofline = node_roofline(WORKLOAD)
    assert roofline.bound_s[1] == pytest.approx(
        max(roofline.compute_s[1], 32_768 / 2e10 / CACHE_SPEEDUP)
    )
    without = dataclasses.replace(
        WORKLOAD, accelerator=dataclasses.replace(made_up.DEVICE, cache_bytes=None)
    )
    np.testing.assert_allclose(node_roofline(without).bound_s, node_roofline(without).roofline_s)


def test_the_bound_is_never_above_the_roofline() -> None:
    for sample in made_up.samples(families=4):
        roofline = node_roofline(sample.workload)
        assert np.all(roofline.bound_s <= roofline.roofline_s)
        assert step_bound_s(sample.workload) == pytest.approx(roofline.bound_s.sum())


def test_wide_operands_do_not_run_at_the_narrow_rate() -> None:
    spec = dataclasses.replace(made_up.DEVICE, peak_flops={"fp32": 2e11, "bf16": 8e11})
    low = dataclasses.replace(WORKLOAD, accelerator=spec, precision=Precision.AMP_BF16)
    # The operands of this graph are fp32 whatever autocast would do.
    assert node_roofline(low).compute_s[0] == node_roofline(WORKLOAD).compute_s[0]


def test_one_thread_of_two_has_half_the_rate() -> None:
    one = dataclasses.replace(WORKLOAD, threads=1)
    assert node_roofline(one).compute_s[0] == pytest.approx(
        2 * node_roofline(WORKLOAD).compute_s[0]
    )


def test_rows_are_finite_and_as_wide_as_their_names() -> None:
    for sample in made_up.samples(families=4):
        rows = node_rows(sample.workload)
        assert rows.features.shape == (len(rows.quotient.count), len(NODE_COLUMNS))
        assert np.isfinite(rows.features).all()
        row = workload_row(sample.workload)
        assert row.shape == (len(COLUMNS),) and np.isfinite(row).all()
    assert len(set(NODE_COLUMNS)) == len(NODE_COLUMNS)
    assert len(set(COLUMNS)) == len(COLUMNS)
    assert workload_rows([]).shape == (0, len(COLUMNS))


def test_settings_show_in_the_row() -> None:
    other = dataclasses.replace(WORKLOAD, compiler=Compiler.ONNXRUNTIME)
    changed = np.flatnonzero(workload_row(other) != workload_row(WORKLOAD))
    assert {COLUMNS[i] for i in changed} == {"compiler_eager", "compiler_onnxruntime"}


def test_shares_add_up_to_one() -> None:
    row = dict(zip(COLUMNS, workload_row(WORKLOAD), strict=True))
    shares = [value for name, value in row.items() if name.startswith("time_share_")]
    assert sum(shares) == pytest.approx(1.0)
