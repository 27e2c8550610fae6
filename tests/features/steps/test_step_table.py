"""Flat arrays of steps against hand arithmetic."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.power_limit import lasting_share
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.steps.memory_time import reuse_of_rows
from perfmodel.features.steps.releases import torch_version
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import (
    DEVICE_FACTS,
    ROW_COLUMNS,
    SETTING_COLUMNS,
    device_facts,
    row_memory_s,
    sketch_rows,
    step_bounds_s,
    step_peaks,
    step_settings,
    step_table,
)
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

MLP = step_sketch(made_up.mlp(32, [64, 128, 16], "relu", training=True))
CONV = step_sketch(made_up.convnet(4, 8, 2, 3, training=False, size=14))
GPU = AcceleratorSpec(
    name="made-up-gpu", kind="gpu", vendor="none", architecture="none", form_factor="none",
    year=None, peak_flops={"fp16": 120e12, "bf16": 110e12, "tf32": 60e12, "fp32": 15e12},
    memory_bytes=16e9, bandwidth_bytes_per_s=800e9, cache_bytes=6e6, core_count=80,
    clock_hz=1.5e9, tdp_w=300.0,
)  # fmt: skip


def _step(**changes: object) -> Step:
    base = Step(sketch=MLP, accelerator=GPU, mode=Mode.TRAINING, batch_size=32)
    return replace(base, **changes)  # type: ignore[arg-type]


def _settings(**changes: object) -> dict[str, float]:
    return dict(zip(SETTING_COLUMNS, step_settings(_step(**changes)), strict=True))


def test_peaks_of_a_mixed_step_by_hand() -> None:
    # Narrow operands run at the fp16 rate, wide ones at that of fp32.
    expected = [120e12, 15e12, 15e12, 800e9, 6e6, 80, 1.5e9]
    assert step_peaks(_step(precision=Precision.AMP_FP16)) == pytest.approx(expected)


def test_a_power_limit_slows_arithmetic_and_no_bound() -> None:
    card = Catalog.default().get("T4")
    steps = [_step(accelerator=card, precision=Precision.AMP_FP16), _step()]
    plain, limited = step_table(steps, as_stated=True), step_table(steps)
    share = lasting_share(card)
    assert share < 0.75
    slower = [share, share, share, 1.0, 1.0, 1.0, share]
    assert limited.peaks[0] == pytest.approx(plain.peaks[0] * slower)
    # A card whose chip nobody knows holds its clock.
    assert limited.peaks[1] == pytest.approx(plain.peaks[1])
    assert step_bounds_s(limited) == pytest.approx(step_bounds_s(plain))


def test_stated_rates_of_a_cpu_count_as_far_as_they_are_reached() -> None:
    stated = Catalog.default().get("Core-i9-10940X")
    measured = replace(stated, sources={"peak_flops": "measured: best square matrix product"})
    for spec, arithmetic, stream in ((stated, 0.64, 0.8), (measured, 1.0, 1.0), (GPU, 1.0, 1.0)):
        steps = [_step(accelerator=spec)]
        plain, reached = step_table(steps, as_stated=True), step_table(steps)
        share = [arithmetic, arithmetic, arithmetic, stream, 1.0, 1.0, arithmetic]
        assert reached.peaks[0] == pytest.approx(plain.peaks[0] * share)
        # No step is held to be impossible that the stated rates allow.
        assert step_bounds_s(reached) == pytest.approx(step_bounds_s(plain))


def test_peaks_of_plain_and_tensor_float_steps() -> None:
    # There narrow and wide work is the same.
    assert step_peaks(_step())[:3] == pytest.approx([15e12, 15e12, 15e12])
    assert step_peaks(_step(precision=Precision.TF32))[:3] == pytest.approx([60e12, 60e12, 15e12])


def test_a_clock_that_lasts_slows_arithmetic_and_leaves_the_bound() -> None:
    # Two thirds of the boost clock; memory, cache and cores stay.
    slow = replace(GPU, sustained_clock_hz=1.0e9)
    peaks = step_peaks(_step(accelerator=slow, precision=Precision.AMP_FP16))
    assert peaks == pytest.approx([80e12, 10e12, 10e12, 800e9, 6e6, 80, 1.0e9])
    bounds = [step_bounds_s(step_table([_step(accelerator=spec)]))[0] for spec in (GPU, slow)]
    assert bounds[1] == pytest.approx(bounds[0])


def test_threads_take_a_share_of_a_cpu() -> None:
    cpu = replace(made_up.DEVICE, core_count=8, peak_flops={"fp32": 8e11})
    whole = step_peaks(_step(accelerator=cpu))
    part = step_peaks(_step(accelerator=cpu, threads=2))
    # A quarter of the cores: a quarter of all arithmetic, all of the bandwidth and the cache.
    assert part == pytest.approx([0.25 * v for v in whole[:3]] + whole[3:5] + [2.0, whole[6]])
    assert step_peaks(_step(accelerator=cpu, threads=99)) == whole
    assert step_peaks(_step(threads=2)) == step_peaks(_step()), "a GPU has no threads of ours"


def test_versions_grow_with_releases() -> None:
    releases = ("1.4.0", "1.12.1", "1.13.1+cu117", "2.0.0", "2.4.1", "2.9.0", "2.10.0", "2.11.0")
    numbers = [torch_version({"torch": release}) for release in releases]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    assert torch_version({"torch": "2.10.0"}) == pytest.approx(3.0)
    assert torch_version({"cuda": "12.4"}) == torch_version({"torch": "nightly"}) == 2.4


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"mode": Mode.INFERENCE}, {"wide"}),
        ({}, {"training", "wide"}),
        ({"precision": Precision.AMP_BF16}, {"training", "autocast", "bfloat"}),
        ({"precision": Precision.FP16}, {"training"}),
        ({"precision": Precision.INT8}, {"training", "int8"}),
        ({"compiler": Compiler.INDUCTOR}, {"training", "wide", "fused"}),
        ({"compiler": Compiler.TENSORRT}, {"training", "wide", "fused"}),
        ({"compiler": Compiler.ONNXRUNTIME}, {"training", "wide", "onnxruntime"}),
        ({"memory_format": MemoryFormat.CHANNELS_LAST}, {"training", "wide", "channels_last"}),
        ({"accelerator": made_up.DEVICE}, {"training", "wide", "cpu"}),
        ({"software": {"framework": "pytorch"}}, {"training", "wide"}),
        ({"software": {"framework": "tensorflow"}}, {"training", "wide", "tensorflow"}),
        ({"software": {"framework": "mxnet"}}, {"training", "wide", "another_framework"}),
    ],
)
def test_settings_say_what_they_are_named_for(changes: dict[str, object], names: set[str]) -> None:
    assert {name for name, value in _settings(**changes).items() if value} == names


def test_old_software_is_told_apart() -> None:
    old = _settings(software={"torch": "1.13.0"})
    assert old["before_torch_2"] == 1.0 and old["torch_version"] == pytest.approx(1.9 - 2.4)
    assert _settings(software={"torch": "2.9.1"})["torch_version"] == pytest.approx(0.5)


def test_facts_are_ratios_to_typical_values() -> None:
    found = dict(zip(DEVICE_FACTS, device_facts(GPU), strict=True))
    assert found["matrix_to_vector"] == pytest.approx(math.log(120 / 15 / 6))
    assert found["matrix_to_power"] == pytest.approx(math.log(120e12 / 300 / 0.5e12))
    assert found["matrix_to_bandwidth"] == pytest.approx(math.log(150 / 150))
    assert found["cores"] == pytest.approx(math.log(80 / 90))
    assert found["cpu"] == 0.0


def test_unknown_facts_are_typical_ones() -> None:
    bare = replace(GPU, tdp_w=None, core_count=None, clock_hz=None, cache_bytes=None)
    found = dict(zip(DEVICE_FACTS, device_facts(bare), strict=True))
    assert found["matrix_to_power"] == found["cores"] == found["clock"] == 0.0
    assert np.isfinite(step_peaks(_step(accelerator=bare))).all()
    assert device_facts(made_up.DEVICE) == [0.0] * 5 + [1.0, 0.0]


def test_the_maker_of_a_gpu_is_a_fact() -> None:
    amd = dict(zip(DEVICE_FACTS, device_facts(replace(GPU, vendor="AMD")), strict=True))
    assert amd["amd_gpu"] == 1.0
    assert {**amd, "amd_gpu": 0.0} == dict(zip(DEVICE_FACTS, device_facts(GPU), strict=True))
    # A CPU of AMD runs the libraries of all CPUs.
    assert device_facts(replace(made_up.DEVICE, vendor="AMD"))[-1] == 0.0


def test_a_shared_sketch_is_laid_out_once() -> None:
    table = step_table([_step(), _step(sketch=CONV), _step(batch_size=4)])
    assert table.sketches == (MLP, CONV)
    assert table.sketch_of.tolist() == [0, 1, 0]
    assert table.length.tolist() == [len(MLP.count), len(CONV.count)]
    assert table.start.tolist() == [0, len(MLP.count)]
    assert table.rows.shape == (len(MLP.count) + len(CONV.count), len(ROW_COLUMNS))
    assert np.array_equal(table.rows[table.start[1] :], sketch_rows(CONV))
    assert np.array_equal(table.count, np.concatenate([MLP.count, CONV.count]))
    assert table.devices == ("made-up-gpu",) * 3


def test_rows_are_finite_and_named_once() -> None:
    assert len(set(ROW_COLUMNS)) == len(ROW_COLUMNS)
    for sketch in (MLP, CONV):
        assert np.isfinite(sketch_rows(sketch)).all()


def test_alignment_by_hand() -> None:
    # First layer: 64 -> 128, a multiple of 16. A width of 20 is one of 4, not of 8.
    odd = step_sketch(made_up.mlp(32, [64, 20], "relu", training=False))
    for sketch, four, eight in ((MLP, 1.0, 1.0), (odd, 1.0, 0.0)):
        rows = sketch_rows(sketch)
        widest = int(np.argmax(sketch.flops * (np.array(sketch.ops) == "addmm")))
        assert rows[widest, ROW_COLUMNS.index("gemm_n_aligned_4")] == four
        assert rows[widest, ROW_COLUMNS.index("gemm_n_aligned_8")] == eight


def test_wide_rows_hold_four_bytes() -> None:
    assert step_table([_step()]).wide.all()


def test_fused_steps_are_told() -> None:
    table = step_table([_step(), _step(compiler=Compiler.INDUCTOR)])
    assert table.fused.tolist() == [False, True]


def test_no_steps_make_an_empty_table() -> None:
    table = step_table([])
    assert table.rows.shape == (0, len(ROW_COLUMNS)) and table.peaks.shape == (0, 7)
    assert table.settings.shape == (0, len(SETTING_COLUMNS)) and table.devices == ()


def test_bounds_by_hand() -> None:
    # An addmm of 2 * 32 * 64 * 128 FLOP at 15 TFLOP/s; the relu after it adds next to nothing.
    layer = step_sketch(made_up.mlp(32, [64, 128], "relu", training=False))
    (bound,) = step_bounds_s(step_table([_step(sketch=layer)]))
    assert bound == pytest.approx(2 * 32 * 64 * 128 / 15e12, rel=0.03)
    # A convolution may take a quarter of the multiplications: 2 * 4 * 8 * 8 * 9 * 14^2 each.
    (bound,) = step_bounds_s(step_table([_step(sketch=CONV)]))
    assert bound == pytest.approx(2 * (2 * 4 * 8 * 8 * 9 * 14**2) / 4 / 15e12, rel=0.03)


def test_bounds_are_those_of_each_step_alone() -> None:
    steps = [_step(), _step(sketch=CONV), _step(precision=Precision.TF32)]
    alone = [float(step_bounds_s(step_table([step]))[0]) for step in steps]
    assert step_bounds_s(step_table(steps)) == pytest.approx(alone)
    assert alone[2] < alone[0]


def test_the_first_steps_are_laid_out_as_they_are_alone() -> None:
    steps = [_step(), _step(batch_size=64), _step(sketch=CONV), _step(sketch=MLP), _step()]
    for count in (0, 2, 3, 5):
        cut, alone = step_table(steps).first(count), step_table(steps[:count])
        for field in fields(alone):
            one, other = getattr(cut, field.name), getattr(alone, field.name)
            if isinstance(other, tuple):
                assert one == other
            else:
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                assert np.array_equal(one, other)


def test_traffic_counts_less_where_the_cache_holds_it() -> None:
    steps = [_step(), _step(accelerator=replace(GPU, cache_bytes=None))]
    table = step_table(steps)
    row = np.arange(len(MLP.count))
    held, moved = (row_memory_s(table, row, np.full_like(row, i)) for i in range(2))
    assert moved == pytest.approx(MLP.traffic_bytes / 800e9)
    # The cache of 6 MB holds the whole step: what is read moves at 20 B x 80 cores x 1.5 GHz.
    read = MLP.traffic_bytes * reuse_of_rows(MLP)[:, 0]
    assert held == pytest.approx((MLP.traffic_bytes - read) / 800e9 + read / 2.4e12)
