"""The Trace: what a profiler wrote down of a run, whatever its format.

Operators (on the host) and kernels (on devices) are columns: a trace has up to tens of millions of
rows. Names and arguments are interned; a column holds positions in the trace's tables. Times are
whole nanoseconds from the start of the trace; what a format does not tell is :data:`UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.traced_devices import TracedDevice
from perfmodel.types import Phase

#: What a column holds where its format does not tell.
UNKNOWN = -1

#: Phases by their number in :attr:`Operators.phase`.
PHASES: tuple[Phase, ...] = tuple(Phase)


class KernelKind(IntEnum):
    """What a device did meanwhile; only ``COMPUTE`` is an operator's own work."""

    COMPUTE = 0
    COPY = 1
    MEMSET = 2
    COLLECTIVE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedTensor:
    """A tensor that an operator was given.

    Parameters
    ----------
    shape : tuple of int
        Extents; ``()`` for a scalar tensor.
    dtype : str
        As :data:`perfmodel.graph.node.DTYPE_BYTES` names it; ``""`` where it is not known.
    strides : tuple of int or None
        In elements; None where the format does not tell.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedInput:
    """One argument of an operator call.

    Parameters
    ----------
    tensors : tuple of TracedTensor
        One for a tensor, several for a list of them, none for a number or nothing at all.
    value : str
        As the format prints it: ``"[1, 1]"``, ``"True"``; ``""`` for tensors or where untold.
    """

    tensors: tuple[TracedTensor, ...] = ()
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorArguments:
    """Arguments of an operator call, in their order.

    Parameters
    ----------
    outputs : tuple of TracedTensor
        Results; empty where the format does not tell, as Kineto does not.
    """

    inputs: tuple[TracedInput, ...]
    outputs: tuple[TracedTensor, ...] = ()

    @property
    def tensors(self) -> tuple[TracedTensor, ...]:
        """Every tensor among the inputs, lists flattened."""
        return tuple(tensor for one in self.inputs for tensor in one.tensors)


@dataclass(frozen=True, kw_only=True, eq=False)
class Operators:
    """Calls on the host; row ``i`` of every column belongs to call ``i``.

    Parameters
    ----------
    name : ndarray of int32
        Position in :attr:`Trace.names`.
    start_ns, duration_ns : ndarray of int64
        From entry to return, callees included; -1 where untold.
    thread : ndarray of int32
        Any number that tells threads apart.
    parent : ndarray of int32
        Row of the call that it ran in; -1 for the outermost.
    arguments : ndarray of int32
        Position in :attr:`Trace.arguments`; -1 where untold.
    phase : ndarray of int8
        Position in :data:`PHASES`; -1 where unknown.
    sequence : ndarray of int64
        Number that a forward call shares with its backward call; -1 where there is none.
    """

    name: npt.NDArray[np.int32]
    start_ns: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]
    thread: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    arguments: npt.NDArray[np.int32]
    phase: npt.NDArray[np.int8]
    sequence: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)

    def __post_init__(self) -> None:
        _check_lengths(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernels:
    """What ran on devices; a row is one run, or the sum over several where ``calls`` > 1.

    Parameters
    ----------
    name : ndarray of int32
        Position in :attr:`Trace.names`.
    start_ns : ndarray of int64
        -1 where the format keeps durations only (summaries).
    duration_ns : ndarray of int64
        Of all calls of the row together, >= 0.
    calls : ndarray of int64
        1 on a timeline.
    device : ndarray of int32
        Index of the device as the trace counts them: :attr:`TracedDevice.index`; -1 untold.
    stream : ndarray of int32
        Queue on the device; -1 untold.
    kind : ndarray of int8
        A :class:`KernelKind`.
    operator : ndarray of int32
        Row of :class:`Operators` that launched it: the innermost call; -1 for none.
    launch_start_ns, launch_duration_ns : ndarray of int64
        The call of the runtime that launched it; -1 untold.
    size_bytes : ndarray of int64
        Bytes copied, set or sent, of all calls together; -1 untold.
    graph : ndarray of bool
        Whether it was launched as part of a CUDA or HIP graph: its operator is then the call that
        launched the whole graph, if any.
    """

    name: npt.NDArray[np.int32]
    start_ns: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]
    calls: npt.NDArray[np.int64]
    device: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    operator: npt.NDArray[np.int32]
    launch_start_ns: npt.NDArray[np.int64]
    launch_duration_ns: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    graph: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.name)

    def __post_init__(self) -> None:
        _check_lengths(self)

    @property
    def queue(self) -> npt.NDArray[np.int64]:
        """One number for device and stream together."""
        return (self.device.astype(np.int64) << 32) + self.stream

    @property
    def end_ns(self) -> npt.NDArray[np.int64]:
        """Ends of rows with a start; -1 elsewhere."""
        return np.where(self.start_ns < 0, UNKNOWN, self.start_ns + self.duration_ns)


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedStep:
    """One step as the trace marks it, on the host's clock.

    Parameters
    ----------
    duration_ns : int
        -1 where untold.
    """

    name: str
    start_ns: int
    duration_ns: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """What a profiler wrote down of one process.

    Parameters
    ----------
    format : str
        A name of :data:`perfmodel.traces.formats.registry.FORMATS`.
    devices : tuple of TracedDevice
        Those of the machine, whether used or not.
    software : mapping of str to str
        Versions: ``cuda``, ``hip``, ``driver``, ``torch``, ``tensorrt``, ... as far as told.
    rank, world_size : int or None
        Of a job of several processes.
    trace_id : str
        What the profiler calls the recording; ``""`` untold. Ranks that were recorded together may
        share it.
    begun_ns : int or None
        Unix time at which the trace starts; None where its clock counts from another moment.
    names : tuple of str
        Table of names; ``aten::addmm``, kernel names as the compiler mangles them not.
    steps : tuple of TracedStep
        As the trace marks them; empty where it marks none.
    summed_steps : int
        Over how many steps sums without a timeline are, as far as the format tells.
    complete : bool
        False where the file ends too early, or kernels lack their times: sums over it are too
        small, it is not imported.
    notes : tuple of str
        What a reader of the explanation must know: left out, guessed, damaged; a sentence each.
    """

    format: str
    names: tuple[str, ...]
    operators: Operators
    kernels: Kernels
    arguments: tuple[OperatorArguments, ...] = ()
    devices: tuple[TracedDevice, ...] = ()
    steps: tuple[TracedStep, ...] = ()
    summed_steps: int = 1
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    rank: int | None = None
    world_size: int | None = None
    trace_id: str = ""
    begun_ns: int | None = None
    complete: bool = True
    notes: tuple[str, ...] = ()

    def name_of(self, row: int) -> str:
        """Return the name of a call on the host by its row."""
        return self.names[int(self.operators.name[row])]

    def arguments_of(self, row: int) -> OperatorArguments | None:
        """Return the arguments of a call on the host, or None where the trace keeps none."""
        position = int(self.operators.arguments[row])
        return None if position < 0 else self.arguments[position]

    @property
    def span_ns(self) -> int:
        """From the start of the trace to the last end that it tells."""
        operators, kernels = self.operators, self.kernels
        ends = (kernels.end_ns, operators.start_ns + np.maximum(operators.duration_ns, 0))
        return max(int(column.max(initial=0)) for column in ends)

    def device(self, index: int) -> TracedDevice | None:
        """Return the device that the trace counts by a number, or None where it tells none."""
        return next((one for one in self.devices if one.index == index), None)


def _check_lengths(columns: Operators | Kernels) -> None:
    lengths = {one.name: len(getattr(columns, one.name)) for one in fields(columns)}
    if len(set(lengths.values())) > 1:
        raise InvalidTraceError(
            f"Columns of a trace differ in length: {lengths}; give one entry a row."
        )
