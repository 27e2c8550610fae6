from typing import Any

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError, UnknownWordError
from perfmodel.features.kernels.kernel_calls import KernelCalls, kernel_calls
from perfmodel.features.kernels.kernel_columns import column_matrix, kernel_columns, kernel_roofline
from perfmodel.features.kernels.kernel_work import DTYPES, FORMULAS, kernel_work

ATTENTION = {
    "batch": 2, "tokens": 3, "context": 4, "heads": 8, "kv_heads": 2, "head_dim": 16,
    "kv_element_bytes": 1,
}  # fmt: skip
MOE = {
    "tokens": 64, "hidden": 32, "inter": 48, "top_k": 2, "experts": 8, "tensor_parallel": 2,
    "expert_parallel": 4, "skew": 0,
}  # fmt: skip
CONV = {
    "batch": 2, "c_in": 3, "c_out": 5, "kernel": 3, "stride": 1, "pad": 1, "height_out": 7,
    "width_out": 7,
}  # fmt: skip
SHAPES: dict[str, dict[str, float]] = {
    "gemm": {"m": 3, "n": 5, "k": 7},
    "bmm": {"batch": 2, "m": 3, "n": 5, "k": 7},
    "conv2d": CONV,
    "attention_prefill": ATTENTION,
    "attention_decode": {**ATTENTION, "tokens": 1},
    "moe": MOE,
}


def one(op: str, shape: dict[str, float], dtype: str = "fp16", device: str = "T4") -> KernelCalls:
    """Return a single call."""
    spec = Catalog.default().get(device)
    return kernel_calls(op=[op], dtype=[dtype], accelerator=[spec], shape=[shape])


def test_a_matrix_product_by_hand() -> None:
    work = kernel_work(one("gemm", {"m": 3, "n": 5, "k": 7}))
    assert work.flops[0] == 2 * 3 * 5 * 7
    assert (work.input_bytes[0], work.weight_bytes[0], work.output_bytes[0]) == (42, 70, 30)


def test_causal_attention_by_hand() -> None:
    work = kernel_work(one("attention_prefill", ATTENTION))
    # each of 3 tokens sees the 4 before and those of its own up to itself: 5 + 6 + 7 = 18 pairs
    assert work.flops[0] == 4 * 2 * 8 * 16 * 18
    assert work.weight_bytes[0] == 2 * 2 * 7 * 2 * 16 * 1  # keys and values of 7 tokens, one byte
    assert work.output_bytes[0] == 2 * 3 * 8 * 16 * 2


def test_experts_that_get_no_token_are_not_read() -> None:
    few = kernel_work(one("moe", {**MOE, "tokens": 1}))
    many = kernel_work(one("moe", {**MOE, "tokens": 4096}))
    expert_bytes = 3 * 32 * 24 * 2
    assert few.weight_bytes[0] == pytest.approx(expert_bytes, rel=0.2)
    assert many.weight_bytes[0] == pytest.approx(2 * expert_bytes)  # 8 experts on 4 ranks


def test_a_three_by_three_convolution_may_skip_three_quarters_of_its_multiplications() -> None:
    work = kernel_work(one("conv2d", CONV))
    assert work.flops[0] == 2 * (2 * 7 * 7) * 5 * (3 * 9)
    assert work.least_flops[0] == work.flops[0] / 4
    strided = kernel_work(one("conv2d", {**CONV, "stride": 2}))
    assert strided.least_flops[0] == strided.flops[0]


@pytest.mark.parametrize("op", sorted(FORMULAS))
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_operator_and_type_has_finite_columns(op: str, dtype: str) -> None:
    calls = one(op, SHAPES.get(op, {"rows": 3, "width": 5, "inputs": 2}), dtype, "H100-SXM5-80GB")
    roofline = kernel_roofline(calls)
    assert np.isfinite(column_matrix(kernel_columns(calls, roofline))).all()
    assert 0 <= roofline.floor_s[0] <= roofline.roofline_s[0]
    assert roofline.work.traffic_bytes[0] > 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"k": float("nan")}, "'k'"), ({"k": 0}, "'k'"), ({"m": -3}, "'m'")],
)
def test_missing_extents_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        kernel_work(one("gemm", {"m": 3, "n": 5, "k": 7, **changed}))


def test_unknown_operators_and_types_are_named() -> None:
    with pytest.raises(UnknownWordError, match="gem"):
        kernel_work(one("gem", {"m": 3, "n": 5, "k": 7}))
    with pytest.raises(UnknownWordError, match="fp17"):
        kernel_work(one("gemm", {"m": 3, "n": 5, "k": 7}, "fp17"))
    with pytest.raises(InvalidInputError, match="one entry a call"):
        kernel_calls(op=["gemm"], dtype=[], accelerator=[], shape=[])


def test_waves_count_tiles_over_multiprocessors() -> None:
    calls = one("gemm", {"m": 1280, "n": 1024, "k": 64})
    columns = kernel_columns(calls, kernel_roofline(calls))
    # 10 x 8 tiles of 128 x 128 on the 40 multiprocessors of a T4: two full waves
    assert columns["log_waves_128x128"][0] == pytest.approx(1.0)
    assert columns["full_waves_128x128"][0] == 1.0
    assert columns["filled_128x128"][0] == 1.0


def test_rows_do_not_depend_on_their_neighbours() -> None:
    spec = Catalog.default().get("T4")
    shape: dict[str, float] = {"m": 48, "n": 80, "k": 96}
    together = kernel_calls(
        op=["add", "gemm"],
        dtype=["fp32", "fp16"],
        accelerator=[Catalog.default().get("P4"), spec],
        shape=[{"rows": 4, "width": 4, "inputs": 1}, shape],
    )
    both = column_matrix(kernel_columns(together, kernel_roofline(together)))
    alone = one("gemm", shape)
    assert np.array_equal(both[1], column_matrix(kernel_columns(alone, kernel_roofline(alone)))[0])
