"""Any accelerator of PyTorch as a device: CUDA, ROCm, XPU through one generic interface.

``torch.accelerator``, ``torch.Event`` and ``torch.get_device_module`` mean the same on every
backend (a ROCm build calls its devices ``cuda``), so that nothing here names one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast, final

from perfmodel.devices.drivers.device_facts import DeviceFacts, merge_facts
from perfmodel.devices.drivers.torch_facts import torch_facts
from perfmodel.errors import MeasurementError, MissingExtraError, first_line
from perfmodel.profilers.runtime.device_runtime import DeviceRuntime, Event, MemoryPeak
from perfmodel.profilers.runtime.telemetry import NoTelemetry, Telemetry

#: Lazy initialisation of libraries and optimizers must lie behind a capture.
_STEPS_BEFORE_CAPTURE = 3


@final
class AcceleratorRuntime(DeviceRuntime):
    """One accelerator that the installed PyTorch can use.

    Parameters
    ----------
    index : int
        Position among the accelerators that this process sees.
    driver : DeviceFacts or None
        What its driver says; None: only what PyTorch says is known.
    telemetry : Telemetry or None
        None: nothing measures its energy.
    torch : module or None
        PyTorch; None: the installed one. A stand-in needs ``accelerator``, ``Event``,
        ``get_device_module``, ``OutOfMemoryError`` and ``version``.

    Raises
    ------
    MeasurementError
        PyTorch sees no accelerator of this index.
    """

    def __init__(
        self,
        *,
        index: int = 0,
        driver: DeviceFacts | None = None,
        telemetry: Telemetry | None = None,
        torch: Any = None,
    ) -> None:
        self._torch = torch if torch is not None else _installed_torch()
        self._accelerator = self._torch.accelerator
        count = self._accelerator.device_count() if self._accelerator.is_available() else 0
        if index >= count:
            raise MeasurementError(
                f"PyTorch {self._torch.__version__} sees {count} accelerators; number {index} is "
                "not among them. `perfmodel doctor` says what this machine has and which build of "
                "PyTorch it needs."
            )
        self._index = index
        self._driver = driver
        self._telemetry = telemetry or NoTelemetry()
        self._accelerator.set_device_index(index)

    @property
    def torch_device(self) -> str:
        """For example ``"cuda:0"``, on ROCm too."""
        return f"{self._accelerator.current_accelerator().type}:{self._index}"

    @cached_property
    def facts(self) -> DeviceFacts:
        """What the driver says, completed by what PyTorch says."""
        told = torch_facts(self._torch, self._index)
        return told if self._driver is None else merge_facts(self._driver, told)

    def synchronise(self) -> None:
        """Wait for every stream of the device."""
        self._accelerator.synchronize(self._index)

    def record(self) -> Event:
        """Record an event on the current stream."""
        event = self._torch.Event(self.torch_device, enable_timing=True)
        event.record()
        return cast(Event, event)

    def elapsed_s(self, begin: Event, end: Event) -> float:
        """Return the seconds between two events on the device's clock."""
        cast(Any, end).synchronize()
        return float(cast(Any, begin).elapsed_time(end)) / 1e3

    def reset_peak_memory(self) -> None:
        """Forget the highest marks of the allocator."""
        self._accelerator.reset_peak_memory_stats(self._index)

    def peak_memory(self) -> MemoryPeak:
        """Return the highest marks of the allocator."""
        return MemoryPeak(
            allocated_bytes=float(self._accelerator.max_memory_allocated(self._index)),
            reserved_bytes=float(self._accelerator.max_memory_reserved(self._index)),
            method="allocator",
        )

    def release_memory(self) -> None:
        """Collect garbage and empty the allocator's cache."""
        gc.collect()
        self._accelerator.empty_cache()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Tell whether the allocator, or a library beside it, got no memory of the device."""
        if isinstance(error, self._torch.OutOfMemoryError):
            return True
        return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()

    @property
    def asynchronous(self) -> bool:
        """True."""
        return True

    def graph_of(self, step: Callable[[], object]) -> Callable[[], object]:
        """Capture a step on a stream of its own, after some steps that make its state.

        Left out: steps that look at values on the host, which no capture allows.
        """
        graph, captured = self._new_graph(stream := self._torch.Stream(self.torch_device))
        self.synchronise()
        try:
            with stream:
                for _ in range(_STEPS_BEFORE_CAPTURE):
                    step()
            self.synchronise()
            with stream, captured:
                step()
        except RuntimeError as error:
            if self.is_out_of_memory(error):
                raise
            raise MeasurementError(
                f"This step cannot be recorded as a graph of the device: {first_line(error)}"
            ) from error
        self.synchronise()
        replay: Callable[[], object] = graph.replay
        return replay

    def _new_graph(self, stream: Any) -> tuple[Any, Any]:
        """Return an empty graph, and the context in which work on a stream is put into it.

        PyTorch 2.11 has no generic one; there the module of the backend has its own.
        """
        if generic := getattr(self._accelerator, "Graph", None):
            return (graph := generic()), graph
        backend = self._torch.get_device_module(self.torch_device)
        for name in ("CUDAGraph", "XPUGraph"):
            if own := getattr(backend, name, None):
                return (graph := own()), backend.graph(graph, stream=stream)
        raise MeasurementError(
            f"PyTorch {self._torch.__version__} has no graphs of this device: install a newer one, "
            "or measure without device graphs."
        )

    @property
    def telemetry(self) -> Telemetry:
        """As given."""
        return self._telemetry


def _installed_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("Profiling on an accelerator", extra="train") from error
    return torch
