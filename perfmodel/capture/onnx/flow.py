"""Control flow that is decided before the model runs: branches, loops of known length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call
from perfmodel.capture.onnx.reading.model import OnnxGraph

#: Follows a subgraph with arguments for its inputs, under a prefix for its names.
Follow = Callable[[OnnxGraph, list[Value], str], list[Value]]
Flow = Callable[[Call, Follow], Sequence[Value | None]]


def _if(call: Call, follow: Follow) -> Sequence[Value | None]:
    condition = call.input(0).known
    if condition is None or condition.size != 1:
        raise call.error(
            "branches on data, so that its work is not known before it runs. Export the model "
            "with the branch decided, or bind the dimensions on which it depends"
        )
    branch = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    body = _body(call, branch)
    if body.inputs:
        raise call.error(f"has a {branch} with inputs, which is not valid")
    return follow(body, [], call.name)


def _loop(call: Call, follow: Follow) -> Sequence[Value | None]:
    body = _body(call, "body")
    trips, condition = call.optional(0), call.optional(1)
    if trips is None or trips.known is None or trips.size != 1:
        raise call.error(
            "runs a number of times that depends on data; make its trip count constant"
        )
    start = None if condition is None else condition.known
    if condition is not None and (start is None or start.size != 1):
        raise call.error("starts on a condition that depends on data")
    states = [call.input(p) for p in range(2, len(call.inputs))]
    if len(body.inputs) != len(states) + 2 or len(body.outputs) < len(states) + 1:
        raise call.error("has a body whose inputs and outputs do not fit")
    stacks: list[list[Value]] = [[] for _ in body.outputs[len(states) + 1 :]]
    running = start is None or bool(start.reshape(-1)[0])
    for iteration in range(int(trips.known.reshape(-1)[0])):
        if not running:
            break
        step = known_value(np.array(iteration, np.int64))
        flag = known_value(np.array(True))
        prefix = f"{call.name}/{iteration}"
        results = follow(body, [step, flag, *states], prefix)
        flags = results[0].known
        if flags is None or flags.size != 1:
            raise call.error("stops on a condition that depends on data")
        running = bool(flags.reshape(-1)[0])
        states = results[1 : len(states) + 1]
        for stack, value in zip(stacks, results[len(states) + 1 :], strict=True):
            stack.append(value)
    return [*states, *(_stack(call, stack, 0) for stack in stacks)]


def _scan(call: Call, follow: Follow) -> Sequence[Value | None]:
    if call.opset < 9:
        raise call.error(f"is of opset {call.opset}; export with opset 9 or newer")
    body = _body(call, "body")
    count = call.int_attr("num_scan_inputs")
    split = len(call.inputs) - count
    states = [call.input(p) for p in range(split)]
    scanned = [call.input(p) for p in range(split, len(call.inputs))]
    if not scanned or len(body.inputs) != len(call.inputs) or len(body.outputs) < split:
        raise call.error("has a body whose inputs and outputs do not fit")
    axes = call.ints_attr("scan_input_axes", [0] * count) or []
    axes = [call.axis(a, v.rank) for a, v in zip(axes, scanned, strict=True)]
    lengths = {v.shape[a] for a, v in zip(axes, scanned, strict=True)}
    if len(lengths) != 1:
        raise call.error(f"scans inputs of different lengths {sorted(lengths)}")
    output_axes = call.ints_attr("scan_output_axes", [0] * (len(body.outputs) - split)) or []
    stacks: list[list[Value]] = [[] for _ in body.outputs[split:]]
    for iteration in range(lengths.pop()):
        rows = [_row(call, v, a, iteration) for v, a in zip(scanned, axes, strict=True)]
        results = follow(body, [*states, *rows], f"{call.name}/{iteration}")
        states = results[:split]
        for stack, value in zip(stacks, results[split:], strict=True):
            stack.append(value)
    return [
        *states,
        *(_stack(call, s, a) for s, a in zip(stacks, output_axes, strict=True)),
    ]


#: Control-flow operators by domain and name.
FLOW: dict[tuple[str, str], Flow] = {("", "If"): _if, ("", "Loop"): _loop, ("", "Scan"): _scan}


def known_value(values: np.ndarray) -> Value:
    """Return a value of which the elements are known."""
    return Value(values.shape, str(values.dtype), known=values)


def _body(call: Call, attribute: str) -> OnnxGraph:
    body = call.attrs.get(attribute)
    if not isinstance(body, OnnxGraph):
        raise call.error(f"has no subgraph {attribute!r}")
    return body


def _row(call: Call, value: Value, axis: int, index: int) -> Value:
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    return call.view("select", value, shape, mark="select", dim=axis, index=index)


def _stack(call: Call, values: list[Value], axis: int) -> Value | None:
    if not values:
        return None
    first = values[0]
    axis = call.axis(axis, first.rank + 1)
    if any(v.shape != first.shape for v in values):
        raise call.error("collects results of different shapes")
    if all(v.known is not None for v in values) and first.size * len(values) <= 4096:
        return known_value(np.stack([v.known for v in values if v.known is not None], axis))
    shape = (*first.shape[:axis], len(values), *first.shape[axis:])
    return call.emit("stack", values, shape, mark="stack", dim=axis)
