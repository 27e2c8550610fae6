"""Peak memory of a step: resident in this process, and of the tensors alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from perfmodel.capture.program import Program, tensors_in


class PeakMemory:
    """Highest resident memory of this process above a base line.

    The kernel keeps the high-water mark itself (``VmHWM``). Where it can be reset through
    ``/proc/self/clear_refs``, the mark since :meth:`reset` is read; elsewhere the mark since the
    process began, which in a fresh process differs only by what construction needed for a
    moment.

    Attributes
    ----------
    method : str
        ``"hwm_since_reset"`` or ``"hwm_since_start"``: which of the two was read.
    """

    def __init__(self) -> None:
        self._base_bytes = psutil.Process().memory_info().rss
        self.method = "hwm_since_start"

    def reset(self) -> None:
        """Forget the highest mark so far; the base line stays."""
        try:
            # 5 resets the high-water mark and nothing else (see proc(5)).
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return
        self.method = "hwm_since_reset"

    def peak_bytes(self) -> float | None:
        """Return the highest resident bytes above the base line; None where nothing tells."""
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return None
        for line in lines:
            if line.startswith("VmHWM:"):
                return float(max(0, int(line.split()[1]) * 1024 - self._base_bytes))
        return None


def peak_tensor_bytes_of(program: Program) -> float:
    """Run one step and return the most bytes that its tensors occupied at one time.

    Resident memory moves in pages and keeps what the C library caches; the events of PyTorch's
    allocator are exact to the byte. Left out: what kernels take outside of that allocator. A step
    before it makes the optimizer's state, as in the middle of a training.

    Parameters
    ----------
    program : Program
        With real tensors on the CPU.

    Returns
    -------
    float
        With parameters, buffers, inputs and optimizer state.
    """
    import torch

    program.step()
    if program.optimizer is not None:
        program.optimizer.zero_grad(set_to_none=True)
    held = _held_bytes(program)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        program.step()
    changes = _allocations(profiler.profiler.kineto_results.experimental_event_tree())
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return held + float(most)


def _held_bytes(program: Program) -> float:
    state = [] if program.optimizer is None else list(program.optimizer.state.values())
    tensors = (
        *program.module.parameters(),
        *program.module.buffers(),
        *tensors_in((program.args, dict(program.kwargs), state)),
    )
    memory = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}
    return float(sum(storage.nbytes() for storage in memory.values()))


def _allocations(events: Iterable[Any]) -> list[tuple[int, int]]:
    """Return time and bytes of each allocation (> 0) and release (< 0) in a tree of events."""
    found: list[tuple[int, int]] = []
    todo = list(events)
    while todo:
        event = todo.pop()
        todo.extend(event.children)
        if event.typed[0].name == "Allocation":
            found.append((event.start_time_ns, event.typed[1].alloc_size))
    return found
