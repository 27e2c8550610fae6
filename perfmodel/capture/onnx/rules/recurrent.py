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
    state = (directions, batch, hidden)
    written = (batch, length) if batch_first else (length, batch)
    dtype = call.result_dtype(name, [value])
    training = call.mode is Mode.TRAINING
    states = 2 if call.node.op == "LSTM" else 1
    saved = (length * batch * directions * gates * hidden if training else 0,)
    out, *last, _ = call.emit_many(
        name,
        [value, *_weights(call, gates * hidden), *_initial(call, states, state, batch_first)],
        [((*written, directions * hidden), dtype), *[(state, dtype)] * states, (saved, dtype)],
        mode=mode,
        hidden_size=hidden,
        num_layers=1,
        batch_first=batch_first,
        bidirectional=directions == 2,
        train=training,
    )
    if batch_first:
        last = [_swapped(call, v) for v in last]
    return [_split_directions(call, out, directions, hidden, batch_first), *last]


def _weights(call: Call, rows: int) -> list[Value]:
    """View each direction's weights and biases apart, in ATen's order."""
    weights = []
    for direction in range(call.input(1).shape[0]):
        for position in (1, 2):
            weights.append(_direction(call, call.input(position), direction))
        if call.optional(3) is not None:
            both = _direction(call, call.input(3), direction)
            for start in (0, rows):
                weights.append(
                    call.view(
                        "slice", both, (rows,), mark="bias", dim=0, start=start, end=start + rows,
                        step=1,
                    )
                )  # fmt: skip
    return weights


def _direction(call: Call, value: Value, index: int) -> Value:
    return call.view("select", value, value.shape[1:], mark="select", dim=0, index=index)


def _initial(call: Call, count: int, state: tuple[int, ...], batch_first: bool) -> list[Value]:
    """Return the initial states; zeros, as PyTorch makes them, where none are given."""
    values = []
    for position in range(5, 5 + count):
        given = call.optional(position)
        if given is None:
            dtype = call.builder.placed(call.input(0)).dtype
            given = call.emit("zeros", [], state, dtype, mark="zeros", size=state)
        elif batch_first:
            given = _swapped(call, given)
        values.append(given)
    return values


def _swapped(call: Call, value: Value) -> Value:
    shape = (value.shape[1], value.shape[0], *value.shape[2:])
    return call.view("transpose", value, shape, mark="transpose", dim0=0, dim1=1)


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
