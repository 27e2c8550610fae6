import numpy as np
import pytest
from made_up_kernels import made_up_calls

from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_columns import KernelRoofline, kernel_roofline
from perfmodel.predictors.kernels.kernel_law import CLOCK_HZ, DeviceLaw, fit_law

DEVICES = ("A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM", "L40S", "V100-SXM2-16GB")
OVERHEAD_S = 3e-6


def bounds() -> tuple[KernelCalls, KernelRoofline]:
    """Return calls on devices that differ in watts, bandwidth and clock."""
    calls = made_up_calls(900, devices=DEVICES, largest=15)
    return calls, kernel_roofline(calls)


def times(law: DeviceLaw, roofline: KernelRoofline) -> FloatArray:
    """Return times that follow a law, at 70 % of what it allows."""
    launch_s = law.launch_s(roofline, np.full(len(roofline.compute_s), OVERHEAD_S))
    return launch_s + law.time_s(roofline) / 0.7


@pytest.mark.parametrize(
    "law",
    [
        DeviceLaw(clock=0.0, power=0.0, latency=0.0),
        DeviceLaw(clock=0.0, power=0.72, latency=0.0),
        DeviceLaw(clock=0.0, power=0.0, latency=1 / 45),
        DeviceLaw(clock=1.0, power=0.36, latency=1 / 90),
    ],
)
def test_the_strengths_are_found(law: DeviceLaw) -> None:
    calls, roofline = bounds()
    overhead_s = np.full(len(calls), OVERHEAD_S)
    found = fit_law(roofline, calls.device, times(law, roofline), overhead_s)
    assert found.power == pytest.approx(law.power)
    assert found.latency == pytest.approx(law.latency)
    assert found.clock == pytest.approx(law.clock)


def test_two_devices_make_no_law() -> None:
    calls, roofline = bounds()
    rows = np.flatnonzero(calls.device < 2)
    strong = DeviceLaw(clock=1.0, power=3.0, latency=1 / 25)
    measured = times(strong, roofline)[rows]
    found = fit_law(roofline.take(rows), calls.device[rows], measured, np.full(len(rows), 3e-6))
    assert found == DeviceLaw()


def test_the_laws_by_hand() -> None:
    _, roofline = bounds()
    law = DeviceLaw(clock=1.0, power=2.0, latency=0.5)
    # twice the clock of reference halves the launch; 2 J/TFLOP at 0.5 TFLOP/s a watt doubles
    one = roofline.take(np.array([0]))
    assert law.launch_s(one, np.array([8.0]))[0] == pytest.approx(8 * CLOCK_HZ / one.clock_hz[0])
    slower = 1 + 2 * one.tflops_per_watt[0]
    assert law.compute_s(one)[0] == pytest.approx(one.compute_s[0] * slower)
    waited = 0.5 * one.uncached_cycles_s[0]
    assert law.memory_s(one)[0] == pytest.approx(one.warm_memory_s[0] + waited)
    assert law.time_s(one)[0] == max(law.compute_s(one)[0], law.memory_s(one)[0])
