"""Measured kernels as steps of one operator."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from perfmodel.importers.published import Origin, PublishedKernel
from perfmodel.training.samples.measured_kernels import operator_graph, operator_steps
from perfmodel.types import Precision

ORIGIN = Origin(source="made-up/tables", licence="CC0-1.0")
GEMM = {"m": 64.0, "n": 128.0, "k": 256.0}
ATTENTION = {"batch": 2.0, "heads": 4.0, "kv_heads": 4.0, "tokens": 16.0, "head_dim": 32.0}


def _kernel(
    op: str,
    shape: Mapping[str, float],
    *,
    accelerator: str = "T4",
    dtype: str = "fp16",
    time_s: float = 1e-5,
) -> PublishedKernel:
    return PublishedKernel(
        op=op, accelerator=accelerator, dtype=dtype, shape=shape, time_s=time_s, origin=ORIGIN
    )


@pytest.mark.parametrize(
    ("op", "shape", "flops"),
    [
        ("gemm", GEMM, 2 * 64 * 128 * 256),
        ("bmm", {"batch": 3.0, **GEMM}, 2 * 3 * 64 * 128 * 256),
        (
            "conv2d",
            {
                "batch": 2.0, "c_in": 8.0, "c_out": 16.0, "kernel": 3.0, "stride": 2.0,
                "height_out": 5.0, "width_out": 7.0,
            },
            2 * (2 * 5 * 7) * 16 * (8 * 9),
        ),
        # Causal: 16 * 17 / 2 pairs, two products of width 32.
        ("attention_prefill", ATTENTION, 4 * 2 * 4 * 136 * 32),
        ("add", {"rows": 10.0, "width": 20.0}, 200),
    ],
)  # fmt: skip
def test_work_is_that_of_the_kernel(op: str, shape: Mapping[str, float], flops: float) -> None:
    (sample,) = operator_steps([_kernel(op, shape)])
    assert sample.step.sketch.flops.sum() == flops
    assert sample.step.sketch.count.tolist() == [1.0]


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "mul", "div", "pow", "relu", "gelu"])
def test_point_wise_operators_read_and_write_their_elements(op: str) -> None:
    (sample,) = operator_steps([_kernel(op, {"rows": 128.0, "width": 512.0}, dtype="fp32")])
    least = 2 * 128 * 512 * 4
    assert least <= sample.step.sketch.traffic_bytes.sum() <= 2 * least


def test_a_record_keeps_device_precision_and_time() -> None:
    kernel = _kernel("gemm", GEMM, accelerator="V100-PCIe-32GB", dtype="bf16", time_s=3e-5)
    (sample,) = operator_steps([kernel])
    step = sample.step
    assert (step.accelerator.name, step.precision) == ("V100-PCIe-32GB", Precision.BF16)
    assert step.alone and sample.step_time_s == 3e-5 and sample.family == "operator/gemm"


@pytest.mark.parametrize(
    "kernel",
    [
        _kernel("gemm", GEMM, dtype="fp8"),
        _kernel("attention_decode", ATTENTION),
        _kernel("attention_prefill", {**ATTENTION, "kv_heads": 2.0}),
        _kernel("attention_prefill", {**ATTENTION, "context": 512.0}),
    ],
)
def test_what_no_graph_stands_for_is_left_out(kernel: PublishedKernel) -> None:
    assert operator_steps([kernel]) == ()
    assert len(operator_steps([kernel, _kernel("gemm", GEMM)])) == 1


def test_no_graph_is_made_for_what_none_stands_for() -> None:
    with pytest.raises(ValueError, match="No graph stands for 'attention_decode'"):
        operator_graph(_kernel("attention_decode", ATTENTION))


def test_of_many_records_the_same_shapes_are_kept_on_every_device() -> None:
    kernels = [
        _kernel("gemm", {**GEMM, "m": float(m)}, accelerator=name)
        for name in ("T4", "V100-PCIe-32GB")
        for m in range(1, 40)
    ]
    found = operator_steps(kernels, limit=7)
    shapes: dict[str, set[float]] = {}
    for sample in found:
        shapes.setdefault(sample.step.accelerator.name, set()).add(sample.step.sketch.flops.sum())
    assert len(found) == 14 and shapes["T4"] == shapes["V100-PCIe-32GB"]


def test_equal_calls_share_one_sketch() -> None:
    one, other = operator_steps(
        [_kernel("gemm", GEMM), _kernel("gemm", GEMM, accelerator="V100-PCIe-32GB")]
    )
    assert one.step.sketch is other.step.sketch
