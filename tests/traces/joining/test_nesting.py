"""Which call ran inside which."""

from __future__ import annotations

import pytest

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.joining.nesting import nested
from perfmodel.traces.trace import UNKNOWN


@pytest.mark.parametrize(
    ("start_ns", "duration_ns", "parent"),
    [
        (20, 50, 0),
        # Its end was rounded up beyond that of its caller.
        (60, 50, 0),
        # The end of the first was rounded up beyond its start.
        (90, 50, UNKNOWN),
        (90, 0, 0),
        (100, 0, UNKNOWN),
    ],
)
def test_rounded_times_nest_as_the_calls_did(start_ns: int, duration_ns: int, parent: int) -> None:
    builder = TraceBuilder("kineto")
    builder.add_operator("outer", start_ns=0, duration_ns=100)
    builder.add_operator("inner", start_ns=start_ns, duration_ns=duration_ns)
    trace = builder.build()
    operators, _ = nested(trace.operators, trace.names)
    assert operators.parent.tolist() == [UNKNOWN, parent]
