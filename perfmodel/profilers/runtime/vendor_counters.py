"""Counters of NVIDIA's and AMD's drivers, and of zeus, which knows both and the CPU's RAPL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from perfmodel.profilers.runtime.counters import CounterSample, DeviceCounters, EnergyCounter

#: Bits of NVML's clock event reasons (nvml.h) that hold a clock back; idling is none.
_NVML_REASONS = {
    0x2: "clock_setting",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "thermal",
    0x40: "thermal",
    0x80: "power_brake",
}


@final
class NvmlCounters(DeviceCounters, EnergyCounter):
    """What NVML says of one GPU. Of a MIG slice only its clocks: power is that of the whole.

    Parameters
    ----------
    nvml : module
        ``pynvml``, or a stand-in.
    uuid : str
        Of the GPU or slice.
    """

    def __init__(self, nvml: Any, uuid: str, *, is_slice: bool = False) -> None:
        nvml.nvmlInit()
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        self._is_slice = is_slice

    @property
    def source(self) -> str:
        """``"nvml"``."""
        return "nvml"

    def energy_j(self) -> float | None:
        """Return the joules since the driver was loaded."""
        return None if self._is_slice else self._ask("nvmlDeviceGetTotalEnergyConsumption", 1e-3)

    def sample(self) -> CounterSample:
        """Read power, clocks, temperature, throttling and processes."""
        nvml = self._nvml
        return CounterSample(
            power_w=None if self._is_slice else self._ask("nvmlDeviceGetPowerUsage", 1e-3),
            clock_hz=self._ask("nvmlDeviceGetClockInfo", 1e6, nvml.NVML_CLOCK_SM),
            memory_clock_hz=self._ask("nvmlDeviceGetClockInfo", 1e6, nvml.NVML_CLOCK_MEM),
            temperature_c=self._ask("nvmlDeviceGetTemperature", 1.0, nvml.NVML_TEMPERATURE_GPU),
            power_limit_w=self._ask("nvmlDeviceGetPowerManagementLimit", 1e-3),
            throttle_reasons=self._reasons(),
            other_processes=self._others(),
        )

    def _reasons(self) -> tuple[str, ...]:
        # The first name is that of drivers from 535 on.
        for name in ("ClocksEventReasons", "ClocksThrottleReasons"):
            if hasattr(self._nvml, f"nvmlDeviceGetCurrent{name}"):
                told = int(self._ask(f"nvmlDeviceGetCurrent{name}", 1.0) or 0)
                return tuple(sorted({why for bit, why in _NVML_REASONS.items() if told & bit}))
        return ()

    def _others(self) -> int | None:
        """Count processes but one: ours, whose number differs inside of a container."""
        try:
            found = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:
            return None
        return max(0, len(found) - 1)

    def _ask(self, name: str, scale: float, *arguments: Any) -> float | None:
        try:
            return float(getattr(self._nvml, name)(self._handle, *arguments)) * scale
        except self._nvml.NVMLError:
            return None


@final
class AmdSmiCounters(DeviceCounters):
    """What AMD SMI says of one GPU.

    Its counter of energy is left to zeus, which checks it against the power first: on some cards
    it is wrong.

    Parameters
    ----------
    amdsmi : module
        ``amdsmi``, or a stand-in.
    index : int
        Position among its GPUs.
    """

    def __init__(self, amdsmi: Any, index: int) -> None:
        amdsmi.amdsmi_init()
        self._amdsmi = amdsmi
        self._handle = amdsmi.amdsmi_get_processor_handles()[index]

    @property
    def source(self) -> str:
        """``"amdsmi"``."""
        return "amdsmi"

    def sample(self) -> CounterSample:
        """Read power, clocks, temperature, throttling and processes."""
        smi, handle = self._amdsmi, self._handle
        power = self._ask(lambda: smi.amdsmi_get_power_info(handle), {})
        cap = self._ask(lambda: smi.amdsmi_get_power_cap_info(handle), {})
        metrics = self._ask(lambda: smi.amdsmi_get_gpu_metrics_info(handle), {})
        processes = self._ask(lambda: smi.amdsmi_get_gpu_process_list(handle), None)
        return CounterSample(
            power_w=_first_number(power, "current_socket_power", "average_socket_power"),
            clock_hz=self._clock_hz(smi.AmdSmiClkType.GFX),
            memory_clock_hz=self._clock_hz(smi.AmdSmiClkType.MEM),
            temperature_c=self._temperature_c(),
            power_limit_w=_scaled(_first_number(cap, "power_cap"), 1e-6),
            throttle_reasons=("throttled",) if metrics.get("throttle_status") is True else (),
            other_processes=None if processes is None else max(0, len(processes) - 1),
        )

    def _clock_hz(self, kind: Any) -> float | None:
        told = self._ask(lambda: self._amdsmi.amdsmi_get_clock_info(self._handle, kind), {})
        return _scaled(_first_number(told, "clk"), 1e6)

    def _temperature_c(self) -> float | None:
        smi = self._amdsmi
        kinds = smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        told = self._ask(lambda: smi.amdsmi_get_temp_metric(self._handle, *kinds), None)
        # Degrees or, in other versions of the library, thousandths of them.
        return None if told is None else float(told) / (1e3 if told > 1e3 else 1.0)

    def _ask(self, question: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return question()
        except self._amdsmi.AmdSmiException:
            return otherwise


@final
class ZeusEnergy(EnergyCounter):
    """The counters of zeus: GPUs of both vendors.

    Parameters
    ----------
    gpus : object
        ``zeus.device.get_gpus()``, or a stand-in.
    index : int
        Position among the GPUs that this process sees, as zeus counts them too.
    """

    def __init__(self, gpus: Any, index: int) -> None:
        self._gpus = gpus
        self._index = index
        self._counts = bool(gpus.supports_get_total_energy_consumption(index))

    @property
    def source(self) -> str:
        """``"zeus"``."""
        return "zeus"

    def energy_j(self) -> float | None:
        """Return the joules since the driver was loaded."""
        if not self._counts:
            return None
        return float(self._gpus.get_total_energy_consumption(self._index)) / 1e3


@final
class ZeusCpuEnergy(EnergyCounter):
    """RAPL through zeus: all packages of the machine, and their memory where it is counted.

    Parameters
    ----------
    cpus : object
        ``zeus.device.get_cpus()``, or a stand-in.
    """

    def __init__(self, cpus: Any) -> None:
        self._cpus = cpus

    @property
    def source(self) -> str:
        """``"zeus (RAPL)"``."""
        return "zeus (RAPL)"

    def energy_j(self) -> float | None:
        """Return the joules since some moment."""
        told = [self._cpus.get_total_energy_consumption(i) for i in range(len(self._cpus))]
        return sum(one.cpu_mj + (one.dram_mj or 0.0) for one in told) / 1e3 if told else None


def _first_number(told: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = told.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
