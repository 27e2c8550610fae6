"""How readers of all formats put a :class:`Trace` together, row by row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.limits import DEFAULT_LIMITS, LATEST_NS, TraceLimits
from perfmodel.traces.trace import (
    UNKNOWN,
    KernelKind,
    Kernels,
    OperatorArguments,
    Operators,
    Trace,
    TracedStep,
)
from perfmodel.traces.traced_devices import TracedDevice

#: Type code of :mod:`array` of each column; all others are ``int64``.
_CODES = {
    "name": "i", "thread": "i", "parent": "i", "arguments": "i", "phase": "b",
    "device": "i", "stream": "i", "kind": "b", "operator": "i", "graph": "b",
}  # fmt: skip
_YEAR_2001_NS = 10**18


class TraceBuilder:
    """Collects the rows of a trace, checks each, and interns names and arguments.

    Examples
    --------
    >>> builder = TraceBuilder("kineto")
    >>> row = builder.add_operator("aten::mm", start_ns=0, duration_ns=9_000, thread=1)
    >>> builder.add_kernel("sgemm", start_ns=4_000, duration_ns=2_000, device=0, operator=row)
    0
    >>> trace = builder.build()
    >>> trace.name_of(0), int(trace.kernels.operator[0])
    ('aten::mm', 0)
    """

    def __init__(self, format_name: str, limits: TraceLimits = DEFAULT_LIMITS) -> None:
        self.format_name = format_name
        self.limits = limits
        self.devices: list[TracedDevice] = []
        self.steps: list[TracedStep] = []
        self.summed_steps = 1
        self.software: dict[str, str] = {}
        self.notes: list[str] = []
        self.rank: int | None = None
        self.world_size: int | None = None
        self.trace_id = ""
        #: Unix time of the moment that times are counted from, as far as the format tells.
        self.epoch_ns = 0
        self.complete = True
        #: What :meth:`build` subtracts from all times: the earliest of them.
        self.origin_ns = 0
        self._names: dict[str, int] = {}
        self._name_bytes = 0
        self._argument_keys: dict[Hashable, int] = {}
        self._arguments: list[OperatorArguments] = []
        self._operators = _empty(Operators)
        self._kernels = _empty(Kernels)

    @property
    def operator_count(self) -> int:
        """Calls on the host so far."""
        return len(self._operators["name"])

    @property
    def kernel_count(self) -> int:
        """Rows of kernels so far."""
        return len(self._kernels["name"])

    def name(self, text: str) -> int:
        """Return the position of a name in the table of names."""
        position = self._names.get(text)
        if position is None:
            position = self._names[text] = len(self._names)
            self._name_bytes += len(text)
            if self._name_bytes > self.limits.names_bytes:
                raise InvalidTraceError(
                    f"The trace has different names of more than {self.limits.names_bytes} bytes "
                    "together; trace fewer steps."
                )
        return position

    def known_arguments(self, key: Hashable) -> int | None:
        """Return the position of arguments that were entered under a key, or None."""
        return self._argument_keys.get(key)

    def arguments(self, key: Hashable, make: Callable[[], OperatorArguments]) -> int:
        """Return the position of arguments in their table; made when a key is new."""
        position = self._argument_keys.get(key)
        if position is None:
            self._arguments.append(make())
            position = self._argument_keys[key] = len(self._arguments) - 1
        return position

    def add_operator(
        self,
        name: str,
        *,
        start_ns: int = UNKNOWN,
        duration_ns: int = UNKNOWN,
        thread: int = 0,
        parent: int = UNKNOWN,
        arguments: int = UNKNOWN,
        phase: int = UNKNOWN,
        sequence: int = UNKNOWN,
    ) -> int:
        """Add a call on the host and return its row; see :class:`Operators`."""
        check_times(name, start_ns, duration_ns)
        row = self.operator_count
        self._append(
            self._operators, name,
            (start_ns, duration_ns, thread, parent, arguments, phase, sequence),
        )  # fmt: skip
        return row

    def add_kernel(
        self,
        name: str,
        *,
        duration_ns: int,
        start_ns: int = UNKNOWN,
        calls: int = 1,
        device: int = UNKNOWN,
        stream: int = UNKNOWN,
        kind: KernelKind = KernelKind.COMPUTE,
        operator: int = UNKNOWN,
        launch_start_ns: int = UNKNOWN,
        launch_duration_ns: int = UNKNOWN,
        size_bytes: int = UNKNOWN,
        graph: bool = False,
    ) -> int:
        """Add what a device ran and return its row; see :class:`Kernels`."""
        check_times(name, start_ns, duration_ns)
        if duration_ns < 0 or calls < 1:
            raise InvalidTraceError(
                f"The kernel {name[:200]!r} has a duration of {duration_ns} ns over {calls} calls; "
                "expected a duration >= 0 and at least one call."
            )
        row = self.kernel_count
        self._append(
            self._kernels, name,
            (start_ns, duration_ns, calls, device, stream, int(kind), operator, launch_start_ns,
             launch_duration_ns, size_bytes, graph),
        )  # fmt: skip
        return row

    def kernel_column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of the kernels so far, to be filled in; none are added meanwhile."""
        values = self._kernels[name]
        empty = np.zeros(0, dtype=values.typecode)
        return np.frombuffer(values, dtype=values.typecode) if values else empty

    def build(self, earliest_ns: int = LATEST_NS) -> Trace:
        """Return the trace, its times counted from the earliest; the builder is used up.

        Parameters
        ----------
        earliest_ns : int
            Of times that are no rows of the trace but have to be counted from the same moment.
        """
        operators, kernels = _columns(self._operators), _columns(self._kernels, graph=np.bool_)
        timed = (operators["start_ns"], kernels["start_ns"], kernels["launch_start_ns"])
        steps = np.array([step.start_ns for step in self.steps], dtype=np.int64)
        self.origin_ns = _shifted((*timed, steps), earliest_ns)
        return Trace(
            format=self.format_name,
            names=tuple(self._names),
            operators=Operators(**operators),
            kernels=Kernels(**kernels),
            arguments=tuple(self._arguments),
            devices=tuple(self.devices),
            steps=tuple(
                replace(self.steps[i], start_ns=int(steps[i])) for i in np.argsort(steps).tolist()
            ),
            summed_steps=self.summed_steps,
            software=MappingProxyType(dict(self.software)),
            rank=self.rank,
            world_size=self.world_size,
            trace_id=self.trace_id,
            begun_ns=_unix_time(self.epoch_ns + self.origin_ns),
            complete=self.complete,
            notes=tuple(self.notes),
        )

    def _append(self, columns: Mapping[str, array[int]], name: str, values: Sequence[int]) -> None:
        numbers = iter(columns.values())
        try:
            next(numbers).append(self.name(name))
            for column, value in zip(numbers, values, strict=True):
                column.append(value)
        except (OverflowError, TypeError) as error:
            raise InvalidTraceError(
                f"{name[:200]!r} has a number that is none or too large ({error}); expected whole "
                "numbers below 2^31 for threads, devices and streams."
            ) from error
        if len(columns["name"]) > self.limits.events:
            raise InvalidTraceError(
                f"The trace has more than {self.limits.events} events; cut it to a few steps."
            )


def duration_ns(file: str, name: str, start_ns: int, end_ns: int) -> int:
    """Return the time between two timestamps.

    Raises
    ------
    InvalidTraceError
        The end lies before the start.
    """
    if end_ns < start_ns:
        raise InvalidTraceError(
            f"{file}: {name[:200]!r} ends {start_ns - end_ns} ns before it starts. The clock "
            "jumped while the trace was taken, or the file is damaged: take it again."
        )
    return end_ns - start_ns


def check_times(name: str, start_ns: int, duration_ns: int) -> None:
    """Refuse a time that cannot be: negative (but for -1, untold) or beyond 146 years.

    Raises
    ------
    InvalidTraceError
        With the name of the event.
    """
    for what, value in (("start", start_ns), ("duration", duration_ns)):
        if not UNKNOWN <= value < LATEST_NS:
            raise InvalidTraceError(
                f"{name[:200]!r} has a {what} of {value} ns; expected one from 0 to 2^62. The "
                "clock jumped while the trace was taken, or the file is damaged: take it again."
            )


def _unix_time(moment_ns: int) -> int | None:
    """Return a moment that is one since 2001; clocks that start with their machine show less."""
    return moment_ns if _YEAR_2001_NS <= moment_ns < LATEST_NS else None


def _empty(columns: type[Operators] | type[Kernels]) -> dict[str, array[int]]:
    return {one.name: array(_CODES.get(one.name, "q")) for one in fields(columns)}


def _shifted(columns: Sequence[npt.NDArray[np.int64]], earliest_ns: int) -> int:
    """Count times from the earliest one, in place, and return that; -1 stays -1."""
    known = [column >= 0 for column in columns]
    earliest = [
        int(np.min(column, where=mask, initial=LATEST_NS))
        for column, mask in zip(columns, known, strict=True)
    ]
    origin_ns = min((*earliest, earliest_ns))
    if 0 < origin_ns < LATEST_NS:
        for column, mask in zip(columns, known, strict=True):
            np.subtract(column, origin_ns, out=column, where=mask)
    return origin_ns if origin_ns < LATEST_NS else 0


def _columns(rows: Mapping[str, array[int]], **types: Any) -> dict[str, Any]:
    """Return columns as arrays that share the memory of the rows."""
    found: dict[str, Any] = {}
    for name, values in rows.items():
        column = np.frombuffer(values or array(values.typecode, [0]), dtype=values.typecode)[
            : len(values)
        ]
        found[name] = column.view(types[name]) if name in types else column
    return found
