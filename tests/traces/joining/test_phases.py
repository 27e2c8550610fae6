"""Backward calls and the forward calls that they answer."""

from __future__ import annotations

from pathlib import Path

import made_traces as made

from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.joining.phases import forward_calls
from perfmodel.traces.trace import PHASES
from perfmodel.types import Phase


def test_backward_calls_find_their_forward_calls(tmp_path: Path) -> None:
    trace = read_trace(made.write_trace(tmp_path / "t.json", made.training_events()))
    operators = trace.operators
    found = forward_calls(operators)
    answered = {}
    for row in range(len(operators)):
        if found[row] >= 0:
            answered[row] = int(found[row])
            assert PHASES[operators.phase[row]] is Phase.BACKWARD
            # Of matmul and the mm inside, both with the number, the inner one is answered.
            assert trace.name_of(int(found[row])) == "aten::mm"
            assert operators.start_ns[found[row]] < operators.start_ns[row]
    # In each step the frame and the mm inside, which has no number of its own.
    assert len(answered) == 4
    assert len(set(answered.values())) == 2


def test_the_optimizer_is_a_phase(tmp_path: Path) -> None:
    events = [made.call("Optimizer.step#SGD.step", 0.0, 20.0), made.call("aten::add_", 1.0, 5.0),
              made.call("aten::add_", 30.0, 5.0)]  # fmt: skip
    trace = read_trace(made.write_trace(tmp_path / "t.json", events))
    phases = [PHASES[phase] for phase in trace.operators.phase.tolist()]
    assert phases == [Phase.OPTIMIZER, Phase.OPTIMIZER, Phase.FORWARD]
    assert (forward_calls(trace.operators) == -1).all()
