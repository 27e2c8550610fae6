from dataclasses import replace

import numpy as np
import pytest
from made_up_kernels import made_up_calls

from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import KernelRoofline, kernel_roofline
from perfmodel.predictors.kernels.kernel_law import LawConstants, law_parts
from perfmodel.predictors.kernels.kernel_law_fit import fit_law

DEVICES = ("A100-SXM4-80GB", "H100-SXM5-80GB", "T4", "L40S", "V100-SXM2-16GB", "P4")
LAUNCH_S = 5e-6
#: Nothing is lost: tiles are filled at once, feed their units and hide their latency.
IDEAL = LawConstants(
    launch=1.0, operand=0.0, fill=0.0, occupancy=0.0, power=0.0, halving=3.0, reached=1.0,
    latency=0.0, sharpness=60.0, winograd=1.0,
)  # fmt: skip


def bounds(count: int = 400) -> tuple[KernelCalls, KernelRoofline]:
    """Return products and additions on devices that differ in watts, bandwidth and year."""
    calls = made_up_calls(count, devices=DEVICES, largest=13)
    return calls, kernel_roofline(calls)


def of_one(m: int, n: int, k: int, device: str = "T4") -> KernelRoofline:
    """Return the bounds of one product."""
    calls = made_up_calls(3, devices=(device,))
    shape = {name: np.array([value] * 3, dtype=float) for name, value in
             {"m": m, "n": n, "k": k, "rows": 1, "width": 1, "inputs": 1}.items()}  # fmt: skip
    return kernel_roofline(replace(calls, op=np.array(["gemm"] * 3), shape=shape)).take(
        np.array([0])
    )


def time_s(roofline: KernelRoofline, law: LawConstants) -> FloatArray:
    """Return the times of products by the law."""
    return law_parts(roofline, np.full(len(roofline.year), LAUNCH_S), law, tiled=True).time_s


def test_a_product_of_whole_waves_runs_at_the_peak() -> None:
    # 40 multiprocessors: 10 x 8 tiles of 128 x 128 are two full waves
    one = of_one(1280, 1024, 4096)
    parts = law_parts(one, np.array([LAUNCH_S]), IDEAL, tiled=True)
    assert parts.compute_s[0] == pytest.approx(one.compute_s[0])
    assert parts.time_s[0] == pytest.approx(LAUNCH_S + one.compute_s[0], rel=0.02)


def test_a_partial_wave_takes_as_long_as_a_whole_one() -> None:
    # 41 tiles of 256 x 128 need two rounds; so do the smaller tiles that they are made of
    rows = 256 * 41
    parts = law_parts(of_one(rows, 128, 512), np.array([0.0]), IDEAL, tiled=True)
    of_80 = law_parts(of_one(256 * 80, 128, 512), np.array([0.0]), IDEAL, tiled=True)
    assert parts.compute_s[0] > 0.5 * of_80.compute_s[0] * 1.02


def test_few_tiles_cut_the_depth() -> None:
    # one tile of 64 x 64 on 40 multiprocessors: parts of the depth fill more of them
    parts = law_parts(of_one(64, 64, 65536), np.array([0.0]), IDEAL, tiled=True)
    assert parts.depth_parts[0] >= 8


def test_power_holds_back_a_card_of_few_watts_alone() -> None:
    limited = replace(IDEAL, power=13.0)
    slowed = {
        device: float(
            time_s(of_one(8192, 8192, 8192, device), limited)[0]
            / time_s(of_one(8192, 8192, 8192, device), IDEAL)[0]
        )
        for device in ("P4", "P100-PCIe-16GB")
    }
    # fp16 runs at the fp32 rate on both; 5.5 TFLOP/s of 75 W and 9.3 of 250 W, both of 2016:
    # strains of 13 x 0.073 x 2^(2/3) = 1.51 and 13 x 0.037 x 2^(2/3) = 0.77
    assert slowed["P4"] == pytest.approx((1 + 1.51**4) ** 0.25, rel=0.02)
    assert slowed["P100-PCIe-16GB"] == pytest.approx((1 + 0.77**4) ** 0.25, rel=0.02)


def test_traffic_by_hand() -> None:
    calls = made_up_calls(3, devices=("A100-SXM4-80GB",))
    one = kernel_roofline(calls).take(np.array([0]))  # an addition
    cold = replace(one, cached_share=np.zeros(1))
    law = replace(IDEAL, reached=0.8, latency=0.02)
    parts = law_parts(cold, np.array([0.0]), law, tiled=False)
    rate = 1 / (1 / (0.8 * 2.039e12) + 0.02 / (108 * 1.41e9))
    assert parts.memory_s[0] == pytest.approx(cold.work.traffic_bytes[0] / rate)


@pytest.mark.parametrize(
    "changed", [{"power": 30.0}, {"reached": 0.5}, {"operand": 25.0}, {"launch": 2.0}]
)
def test_the_fit_finds_what_the_calls_follow(changed: dict[str, float]) -> None:
    calls, roofline = bounds()
    rows = np.flatnonzero(calls.op == "gemm")
    own, device = roofline.take(rows), calls.device[rows]
    true = replace(LawConstants(), **changed)
    levels = np.linspace(-0.1, 0.1, len(DEVICES))[device]
    measured = time_s(own, true) * np.exp(levels)
    stated = np.full(len(rows), LAUNCH_S)
    found = fit_law(own, device, measured, stated, tiled=True)
    before = np.abs(np.log(time_s(own, LawConstants()) / time_s(own, true))).mean()
    after = np.abs(np.log(time_s(own, found) / time_s(own, true))).mean()
    assert after < 0.7 * before
