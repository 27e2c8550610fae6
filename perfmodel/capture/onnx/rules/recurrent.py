"""Recurrent layers: one fused node over the whole sequence, as cuDNN runs them."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates
from perfmodel.types import Mode

#: ONNX operator -> (name in the graph, gates, cuDNN mode).
_LAYERS = {"LSTM": ("lstm", 4, 2), "GRU": ("gru", 3, 3), "RNN": ("rnn_tanh", 1, 1)}


@translates(*_LAYERS)
def _recurrent(call: Call) -> Sequence[Value]:
    name, gates, mode = _LAYERS[call.node.op]
    value, weight, recurrence = (call.input(p) for p in range(3))
    if value.rank != 3 or weight.rank != 3 or recurrence.rank != 3:
        raise call.error(f"reads {list(value.shape)} with weights {list(weight.shape)}")
    batch_first = call.int_attr("layout", 0) == 1
    length, batch = value.shape[:2][:: -1 if batch_first else 1]
    directions, hidden = weight.shape[0], recurrence.shape[2]
    if directions not in (1, 2) or weight.shape != (directions, gates * hidden, value.shape[2]):
        raise call.error(f"reads {list(value.shape)} with weights {list(weight.shape)}")
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    kept = [v for v in (call.optional(3), call.optional(5), call.optional(6)) if v is not None]
    written = (batch, length) if batch_first else (length, batch)
    dtype = call.result_dtype(name, [value])
    states = 2 if call.node.op == "LSTM" else 1
    out, *last = call.emit_many(
        name,
        [value, weight, recurrence, *kept],
        [((*written, directions * hidden), dtype), *[(state, dtype)] * states],
        mode=mode,
        hidden_size=hidden,
        num_layers=1,
        batch_first=batch_first,
        bidirectional=directions == 2,
        train=call.mode is Mode.TRAINING,
    )
    return [_split_directions(call, out, directions, hidden, batch_first), *last]


def _split_directions(
    call: Call, out: Value, directions: int, hidden: int, batch_first: bool
) -> Value:
    """Write ATen's result as ONNX lays it out: directions apart from the hidden axis."""
    lead = out.shape[:2]
    shape = (*lead, directions, hidden)
    out = call.view("view", out, shape, mark="view", size=shape)
    if batch_first:
        return out
    order = (0, 2, 1, 3)
    return call.view(
        "permute", out, (lead[0], directions, lead[1], hidden), mark="permute", dims=order
    )
