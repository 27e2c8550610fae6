"""Telemetry from replayed counters, with its arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.profilers.runtime.counters import (
    CounterSample,
    CounterTelemetry,
    DeviceCounters,
    EnergyCounter,
)
from perfmodel.profilers.runtime.opening import telemetry_of
from perfmodel.profilers.runtime.telemetry import NoTelemetry
from perfmodel.profilers.runtime.vendor_counters import (
    AmdSmiCounters,
    NvmlCounters,
    ZeusCpuEnergy,
    ZeusEnergy,
)


class Counter(EnergyCounter):
    source = "counter"

    def __init__(self, *joules: float | None) -> None:
        self._joules = iter(joules)

    def energy_j(self) -> float | None:
        return next(self._joules)


class Samples(DeviceCounters):
    source = "driver"

    def __init__(self, samples: Sequence[CounterSample]) -> None:
        self._samples = iter(samples)

    def sample(self) -> CounterSample:
        return next(self._samples)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_energy_is_the_difference_of_a_counter() -> None:
    clock = Clock()
    telemetry = CounterTelemetry(energy=Counter(1000.0, 1300.0), clock_s=clock)
    telemetry.start()
    clock.now_s += 2.0
    reading = telemetry.stop()
    # 300 J in 2 s are 150 W.
    assert (reading.energy_j, reading.mean_power_w) == (300.0, 150.0)
    assert reading.source == "energy of counter"


def test_samples_are_summed_up_and_not_taken_too_often() -> None:
    clock = Clock()
    samples = [
        CounterSample(power_w=100.0, clock_hz=1.0e9, temperature_c=50.0, power_limit_w=300.0),
        CounterSample(power_w=200.0, clock_hz=1.4e9, temperature_c=70.0, other_processes=1),
        CounterSample(power_w=300.0, clock_hz=1.2e9, throttle_reasons=("thermal", "power_cap")),
    ]
    telemetry = CounterTelemetry(counters=Samples(samples), clock_s=clock)
    telemetry.start()
    clock.now_s += 0.5
    telemetry.sample()
    telemetry.sample()  # at the same moment: left out
    clock.now_s += 0.5
    reading = telemetry.stop()
    # Mean of 100, 200 and 300 W over 1 s.
    assert (reading.mean_power_w, reading.energy_j) == (200.0, 200.0)
    assert reading.clock_hz == 1.2e9
    assert (reading.temperature_c, reading.power_limit_w, reading.other_processes) == (70, 300, 1)
    assert reading.throttle_reasons == ("power_cap", "thermal")
    assert reading.disturbed
    assert reading.source == "driver, energy of sampled power"


@pytest.mark.parametrize("end_j", [None, 900.0, 1000.0])
def test_a_counter_that_cannot_be_right_is_not_believed(end_j: float | None) -> None:
    clock = Clock()
    telemetry = CounterTelemetry(
        energy=Counter(1000.0, end_j),
        counters=Samples([CounterSample(power_w=50.0)] * 2),
        clock_s=clock,
    )
    telemetry.start()
    clock.now_s += 4.0
    assert telemetry.stop().energy_j == 200.0


class FakeNvmlError(Exception):
    pass


def nvml(*, reasons: int = 0, processes: int = 1) -> Any:
    def clock(handle: str, kind: str) -> int:
        if kind == "memory":
            raise FakeNvmlError("Not Supported")
        return 1410

    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        NVML_CLOCK_SM="sm",
        NVML_CLOCK_MEM="memory",
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: 5_000,
        nvmlDeviceGetPowerUsage=lambda handle: 250_000,
        nvmlDeviceGetClockInfo=clock,
        nvmlDeviceGetTemperature=lambda handle, kind: 61,
        nvmlDeviceGetPowerManagementLimit=lambda handle: 400_000,
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: reasons,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [object()] * processes,
    )


def test_nvml_is_read_in_si_units() -> None:
    # 0x4 is the software power cap, 0x40 the hardware's thermal slowdown, 0x1 idling.
    counters = NvmlCounters(nvml(reasons=0x45, processes=3), "GPU-1")
    sample = counters.sample()
    assert counters.energy_j() == 5.0
    assert (sample.power_w, sample.clock_hz, sample.temperature_c) == (250.0, 1.41e9, 61.0)
    assert (sample.power_limit_w, sample.memory_clock_hz) == (400.0, None)
    assert sample.throttle_reasons == ("power_cap", "thermal")
    assert sample.other_processes == 2


def test_the_real_library_has_what_is_asked_of_it() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for name in vars(nvml()):
        assert hasattr(pynvml, name), name
    bits = pynvml.nvmlClocksEventReasonSwPowerCap, pynvml.nvmlClocksEventReasonHwThermalSlowdown
    assert bits == (0x4, 0x40)


def test_a_slice_has_no_power_of_its_own() -> None:
    counters = NvmlCounters(nvml(), "MIG-1", is_slice=True)
    assert counters.energy_j() is None
    assert counters.sample().power_w is None
    assert counters.sample().clock_hz == 1.41e9


class FakeAmdSmiError(Exception):
    pass


def test_amd_smi_is_read_in_si_units() -> None:
    kinds = SimpleNamespace(GFX="gfx", MEM="mem", HOTSPOT="hotspot", CURRENT="current")
    amdsmi = SimpleNamespace(
        AmdSmiException=FakeAmdSmiError,
        AmdSmiClkType=kinds,
        AmdSmiTemperatureType=kinds,
        AmdSmiTemperatureMetric=kinds,
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: ["a", "b"],
        amdsmi_get_power_info=lambda handle: {
            "current_socket_power": "N/A", "average_socket_power": 512,
        },
        amdsmi_get_power_cap_info=lambda handle: {"power_cap": 750_000_000},
        amdsmi_get_gpu_metrics_info=lambda handle: {"throttle_status": True},
        amdsmi_get_gpu_process_list=lambda handle: [{"pid": 1}],
        amdsmi_get_clock_info=lambda handle, kind: {"clk": {"gfx": 2100, "mem": 1300}[kind]},
        amdsmi_get_temp_metric=lambda handle, kind, metric: 74_000,
    )  # fmt: skip
    sample = AmdSmiCounters(amdsmi, 1).sample()
    assert (sample.power_w, sample.power_limit_w, sample.temperature_c) == (512.0, 750.0, 74.0)
    assert (sample.clock_hz, sample.memory_clock_hz) == (2.1e9, 1.3e9)
    assert (sample.throttle_reasons, sample.other_processes) == (("throttled",), 0)


def test_zeus_counts_gpus_and_packages_in_millijoules() -> None:
    gpus = SimpleNamespace(
        supports_get_total_energy_consumption=lambda index: index == 0,
        get_total_energy_consumption=lambda index: 42_000,
    )
    assert ZeusEnergy(gpus, 0).energy_j() == 42.0
    assert ZeusEnergy(gpus, 1).energy_j() is None

    class Cpus:
        def __len__(self) -> int:
            return 2

        def get_total_energy_consumption(self, index: int) -> Any:
            return SimpleNamespace(cpu_mj=1_000.0, dram_mj=500.0 if index else None)

    # Two packages of 1 J, one with memory of 0.5 J.
    assert ZeusCpuEnergy(Cpus()).energy_j() == 2.5


def test_a_device_that_nothing_watches_has_unknown_power() -> None:
    telemetry = telemetry_of(DeviceFacts(name="toy", backend="xpu"))
    assert isinstance(telemetry, NoTelemetry)
    assert telemetry.stop().energy_j is None


# As zeus counts: two visible GPUs, of which the second is another card.
@pytest.mark.parametrize(("visible", "asked"), [(0, True), (1, False), (5, False)])
def test_zeus_is_asked_by_the_number_that_this_process_sees(
    monkeypatch: pytest.MonkeyPatch, visible: int, asked: bool
) -> None:
    names = ["NVIDIA L4", "NVIDIA T4"]
    gpus = SimpleNamespace(
        get_name=lambda index: names[index],
        supports_get_total_energy_consumption=lambda index: index == visible,
    )
    zeus = SimpleNamespace(get_gpus=lambda: gpus)
    errors = SimpleNamespace(ZeusBaseCPUError=OSError, ZeusBaseGPUError=OSError)
    modules = {"zeus": zeus, "zeus.device": zeus, "zeus.device.exception": errors}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    facts = DeviceFacts(name="NVIDIA L4", backend="cuda", index=7)
    assert isinstance(telemetry_of(facts, visible_index=visible), CounterTelemetry) == asked
