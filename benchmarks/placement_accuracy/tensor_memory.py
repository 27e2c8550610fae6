"""Peak memory of the tensors of a real step, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from perfmodel.capture.program import Program, tensors_in


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
