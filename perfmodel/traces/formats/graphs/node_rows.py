"""Nodes of execution traces as calls on the host: arguments, callers, phases."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.argument_table import ArgumentTable
from perfmodel.traces.formats.kineto.arguments import DTYPES
from perfmodel.traces.joining.phases import phase_markers
from perfmodel.traces.trace import UNKNOWN, OperatorArguments, Trace, TracedInput, TracedTensor
from perfmodel.traces.traced_devices import traced_device

_TENSOR = re.compile(r"Tensor\(([^()]{1,60}(?:<\w+>)?)\)")
_DEVICE = re.compile(r"(?:cuda|hip|xpu):(\d{1,4})")
_LONGEST_VALUE = 200
#: Of a tensor's value: tensor, storage, offset, elements, bytes of one, device.
_DEVICE_AT = 5


class NodeRows:
    """Takes nodes in any order and makes calls of them.

    Parameters
    ----------
    builder : TraceBuilder
        Takes one call for each node.
    file : str
        Named in messages.
    """

    def __init__(self, builder: TraceBuilder, file: str) -> None:
        self.builder = builder
        self.file = file
        self._ids = array("q")
        self._callers = array("q")
        self._launchers = array("q")
        self._devices: set[int] = set()
        self._arguments = ArgumentTable(builder)

    def add(
        self,
        number: int,
        caller: int,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        **times: int,
    ) -> int:
        """Add a node.

        Parameters
        ----------
        number, caller : int
            Of the node and of the one that it ran in.
        inputs, outputs : sequence
            Values, shapes, types and strides of the arguments, each a list or None.
        times
            Further columns: ``start_ns``, ``duration_ns``, ``thread``, ``sequence``.
        """
        arguments = self._arguments.position(
            orjson.dumps((_told(inputs), _told(outputs)), default=str),
            lambda: self._made(inputs, outputs),
        )
        row = self.builder.add_operator(name, arguments=arguments, **times)
        self._ids.append(number)
        self._callers.append(caller if caller != number else UNKNOWN)
        return row

    def launched(self, launcher: int) -> None:
        """Take the node that launched the last kernel of the builder; -1 for none."""
        self._launchers.append(launcher)

    def build(self) -> Trace:
        """Return the trace, its calls joined to their callers and its kernels to calls.

        Raises
        ------
        InvalidTraceError
            There are no nodes, or callers go in a circle.
        """
        if not self._ids:
            raise InvalidTraceError(f"{self.file} holds no nodes; nothing was recorded.")
        self._arguments.note()
        self.builder.devices += [traced_device(index, "") for index in sorted(self._devices)]
        trace = self.builder.build()
        parent = self._parents()
        phase = _nearest_mark(phase_markers(trace.names)[trace.operators.name], parent)
        return replace(
            trace,
            operators=replace(trace.operators, parent=parent.astype(np.int32), phase=phase),
            kernels=replace(
                trace.kernels, operator=self._rows_of(self._launchers).astype(np.int32)
            ),
        )

    def _rows_of(self, numbers: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the rows of nodes by their numbers; -1 where there is no such node."""
        ids = np.array(self._ids, dtype=np.int64)
        wanted = np.array(numbers, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        place = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
        return np.where((ids[order[place]] == wanted) & (wanted >= 0), order[place], UNKNOWN)

    def _parents(self) -> npt.NDArray[np.int64]:
        parent = self._rows_of(self._callers)
        upwards = parent
        for _ in range(len(parent).bit_length() + 1):
            upwards = np.where(upwards >= 0, upwards[upwards], UNKNOWN)
        if (upwards >= 0).any():
            row = int(np.flatnonzero(upwards >= 0)[0])
            raise InvalidTraceError(
                f"{self.file}: the callers of node {self._ids[row]} go in a circle; the file is "
                "damaged. Record it again."
            )
        return parent

    def _made(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> OperatorArguments:
        return OperatorArguments(
            inputs=self._inputs(inputs),
            outputs=tuple(t for one in self._inputs(outputs) for t in one.tensors),
        )

    def _inputs(self, listed: Sequence[Any]) -> tuple[TracedInput, ...]:
        values, shapes, types, strides = (part if isinstance(part, list) else [] for part in listed)
        return tuple(
            self._input(str(kind), _at(values, i), _at(shapes, i), _at(strides, i))
            for i, kind in enumerate(types)
        )

    def _input(self, kind: str, value: Any, shape: Any, strides: Any) -> TracedInput:
        kinds = _TENSOR.findall(kind)
        if not kinds:
            text = "" if value in (None, "<None>") else str(value)
            return TracedInput(value=text if len(text) <= _LONGEST_VALUE else "")
        if kind.startswith("Tensor("):
            self._device(value)
            return TracedInput(tensors=_tensors(kinds, [shape], [strides]))
        return TracedInput(tensors=_tensors(kinds, shape, strides))

    def _device(self, value: Any) -> None:
        if isinstance(value, list | tuple) and len(value) > _DEVICE_AT:
            found = _DEVICE.fullmatch(str(value[_DEVICE_AT]))
            if found:
                self._devices.add(int(found[1]))


def _told(listed: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a node tells of arguments, without the ids of tensors, which all differ."""
    values, shapes, types, strides = listed
    if not isinstance(values, list) or not isinstance(types, list):
        return (shapes, types, strides)
    told = [
        _at(value, _DEVICE_AT) if "Tensor" in str(kind) else value
        for kind, value in zip(types, values, strict=False)
    ]
    return (told, shapes, types, strides)


def _tensors(kinds: Sequence[str], shapes: Any, strides: Any) -> tuple[TracedTensor, ...]:
    found = []
    for i, kind in enumerate(kinds):
        shape, steps = _extents(_at(shapes, i)), _extents(_at(strides, i))
        if shape is not None:
            fits = steps is not None and len(steps) == len(shape)
            found.append(
                TracedTensor(
                    shape=shape, dtype=DTYPES.get(kind, ""), strides=steps if fits else None
                )
            )
    return tuple(found)


def _extents(listed: Any) -> tuple[int, ...] | None:
    if not isinstance(listed, list | tuple) or len(listed) > 64:
        return None
    if all(type(extent) is int and 0 <= extent < 2**62 for extent in listed):
        return tuple(listed)
    return None


def _at(values: Any, position: int) -> Any:
    inside = isinstance(values, list | tuple) and position < len(values)
    return values[position] if inside else None


def _nearest_mark(
    marks: npt.NDArray[np.int8], parent: npt.NDArray[np.int64]
) -> npt.NDArray[np.int8]:
    """Return the mark of each row, or of the nearest marked one around it; 0 where none is."""
    marks, upwards = marks.copy(), parent.copy()
    while len(waiting := np.flatnonzero((marks < 0) & (upwards >= 0))):
        above = upwards[waiting]
        marked = marks[above] >= 0
        marks[waiting[marked]] = marks[above[marked]]
        upwards[waiting[~marked]] = upwards[above[~marked]]
    return np.where(marks < 0, np.int8(0), marks)
