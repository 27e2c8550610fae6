"""A PyTorch whose accelerator replays: as much of it as the accelerator runtime asks for."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any


class FakeOutOfMemoryError(RuntimeError):
    pass


class FakeGraph:
    """Records work instead of queueing it, and queues all of it at once."""

    def __init__(self, torch: FakeTorch) -> None:
        self._torch = torch
        self.device_s = 0.0

    def __enter__(self) -> FakeGraph:
        self._torch.recording = self
        return self

    def __exit__(self, *_: object) -> None:
        self._torch.recording = None

    def replay(self) -> None:
        self._torch.queue_s += self.device_s


class FakeTorch:
    """One accelerator; work put into its queue takes the device time that is said.

    The device is a queue: ``work(0.2)`` returns at once and is done 0.2 s after whatever was
    queued before it. Events take their moment from the queue, not from the host.
    """

    __version__ = "2.13.0+fake"
    OutOfMemoryError = FakeOutOfMemoryError

    def __init__(
        self, *, kind: str = "cuda", hip: str | None = None, count: int = 1,
        generic_graphs: bool = True, **properties: Any,
    ) -> None:  # fmt: skip
        self.version = SimpleNamespace(hip=hip)
        self.queue_s = 0.0
        self.waits = 0
        self.allocated = self.reserved = 0
        self._peak = [0, 0]
        self.properties = SimpleNamespace(
            **{"name": "NVIDIA A100-SXM4-80GB", "total_memory": 85_100_000_000, "major": 8,
               "minor": 0, "multi_processor_count": 108, "L2_cache_size": 41_943_040,
               **properties}
        )  # fmt: skip
        self.accelerator = SimpleNamespace(
            is_available=lambda: count > 0,
            device_count=lambda: count,
            current_accelerator=lambda: SimpleNamespace(type=kind),
            set_device_index=lambda index: None,
            synchronize=self._synchronize,
            reset_peak_memory_stats=self._reset,
            max_memory_allocated=lambda index: self._peak[0],
            max_memory_reserved=lambda index: self._peak[1],
            empty_cache=self._empty,
        )
        self._module = SimpleNamespace(get_device_properties=lambda index: self.properties)
        if generic_graphs:
            self.accelerator.Graph = lambda: FakeGraph(self)
        else:  # as in 2.11
            self._module.CUDAGraph = lambda: FakeGraph(self)
            self._module.graph = lambda graph, *, stream: graph
        self.recording: FakeGraph | None = None

    def get_device_module(self, kind: str) -> Any:
        return self._module

    def Event(self, device: str, *, enable_timing: bool) -> Any:  # noqa: N802
        assert enable_timing
        event = SimpleNamespace(at_s=None, synchronize=lambda: None)
        event.record = lambda: setattr(event, "at_s", self.queue_s)
        event.elapsed_time = lambda end: (end.at_s - event.at_s) * 1e3
        return event

    def Stream(self, device: str) -> Any:  # noqa: N802
        return nullcontext()

    def work(self, device_s: float) -> None:
        if self.recording is not None:
            self.recording.device_s += device_s
        else:
            self.queue_s += device_s

    def allocate(self, size: int) -> None:
        self.allocated += size
        self.reserved = max(self.reserved, self.allocated)
        self._peak = [max(self._peak[0], self.allocated), max(self._peak[1], self.reserved)]

    def free(self, size: int) -> None:
        self.allocated -= size

    def _synchronize(self, index: int) -> None:
        self.waits += 1

    def _reset(self, index: int) -> None:
        self._peak = [self.allocated, self.reserved]

    def _empty(self) -> None:
        self.reserved = self.allocated
