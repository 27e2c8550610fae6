"""Peak memory of one accelerator, by liveness over the storages of a step.

A storage (one allocation, however many tensors view it) is alive from the node that produces it
to the node that reads it last. With ``size_s`` its bytes and ``[birth_s, death_s]`` the positions
between which it lives,

    peak = max over nodes i of  sum of size_s  where birth_s <= i <= death_s,

plus what the runtime holds beside the tensors. Left out: workspaces of libraries, fragmentation
of the allocator, buffers of communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec, Kind
from perfmodel.graph.ir import Graph
from perfmodel.placement.estimate import MemoryEstimate
from perfmodel.types import Phase, Role

#: Bytes that the runtime holds on a device before the first tensor: driver context and library
#: handles of a GPU, interpreter and framework of a CPU process. Rounded from what such processes
#: show while idle; a device that differs by 200 MB changes no answer that is not a close call.
RUNTIME_BYTES: Mapping[Kind, float] = MappingProxyType(
    {"gpu": 600e6, "cpu": 300e6, "tpu": 500e6, "npu": 600e6}
)

#: Held through the whole step, whether or not a later node reads them.
_PERSISTENT = frozenset(
    {Role.INPUT, Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE, Role.CONSTANT}
)

IntArray = npt.NDArray[np.int64]


def peak_tensor_bytes(graph: Graph) -> float:
    """Return the most bytes that the tensors of a step occupy at one time.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    float
        Bytes, without what the runtime holds (:data:`RUNTIME_BYTES`).
    """
    if not graph.tensors:
        return 0.0
    size, birth, death = _lifetimes(graph)
    change = np.zeros(max(len(graph.nodes), 1) + 1)
    np.add.at(change, birth, size)
    np.add.at(change, death + 1, -size)
    return float(np.cumsum(change)[:-1].max())


def memory_estimate(peak_bytes: float, accelerator: AcceleratorSpec) -> MemoryEstimate:
    """Compare the tensors of a step with what an accelerator holds.

    Parameters
    ----------
    peak_bytes : float
        From :func:`peak_tensor_bytes`.
    accelerator : AcceleratorSpec

    Returns
    -------
    MemoryEstimate
        ``peak_bytes`` includes what the runtime holds.
    """
    peak = peak_bytes + RUNTIME_BYTES[accelerator.kind]
    return MemoryEstimate(
        peak_bytes=peak,
        capacity_bytes=accelerator.memory_bytes,
        fits=peak <= accelerator.memory_bytes,
    )


def _lifetimes(graph: Graph) -> tuple[npt.NDArray[np.float64], IntArray, IntArray]:
    """Return bytes, first and last position of each storage of a graph."""
    last = max(len(graph.nodes) - 1, 0)
    slots: dict[int, int] = {}
    slot_of = [slots.setdefault(tensor.storage, len(slots)) for tensor in graph.tensors]
    size, birth, death = [0.0] * len(slots), [last] * len(slots), [0] * len(slots)
    for tensor, slot, producer in zip(graph.tensors, slot_of, graph.producer, strict=True):
        size[slot] = max(size[slot], tensor.size_bytes)
        birth[slot] = min(birth[slot], max(producer, 0))
        death[slot] = max(death[slot], producer)
        if tensor.role in _PERSISTENT:
            birth[slot], death[slot] = 0, last
    for position, node in enumerate(graph.nodes):
        for index in node.inputs:
            # A parameter's gradient stays until the next step clears it.
            held = node.phase is Phase.OPTIMIZER and graph.tensors[index].role is Role.GRADIENT
            death[slot_of[index]] = max(death[slot_of[index]], last if held else position)
    return np.array(size), np.array(birth, dtype=np.int64), np.array(death, dtype=np.int64)
