"""Arguments of calls, each kind once, as many as the limits allow."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.trace import UNKNOWN, OperatorArguments

#: What files write for an argument and for a tensor, roughly; Python takes ten times as much.
_INPUT_BYTES, _TENSOR_BYTES = 30, 20


class ArgumentTable:
    """Enters arguments into a builder until they take more memory than its limits allow."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._size_bytes = 0
        self._left_out = 0

    def position(self, key: Hashable, make: Callable[[], OperatorArguments]) -> int:
        """Return where arguments stand; -1 for those that are left out.

        Parameters
        ----------
        key : hashable
            Equal for equal arguments.
        make : callable
            Called when a key is new.
        """
        known = self._builder.known_arguments(key)
        if known is not None:
            return known
        found = make()
        tensors = len(found.tensors) + len(found.outputs)
        self._size_bytes += _INPUT_BYTES * (1 + len(found.inputs)) + _TENSOR_BYTES * tensors
        if self._size_bytes > self._builder.limits.arguments_bytes:
            self._left_out += 1
            return UNKNOWN
        return self._builder.arguments(key, lambda: found)

    def note(self) -> None:
        """Note in the builder how many calls lost their arguments, if any did."""
        if self._left_out:
            self._builder.notes.append(
                f"Arguments of {self._left_out} calls were left out: there are too many kinds."
            )
