"""Lists of tensors, as far as their lengths are known."""

from __future__ import annotations

import numpy as np

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates
from perfmodel.capture.onnx.rules.movement import ints


@translates("SequenceConstruct")
def _construct(call: Call) -> Value:
    return _sequence(tuple(call.input(p) for p in range(len(call.inputs))))


@translates("SequenceEmpty")
def _empty(call: Call) -> Value:
    return _sequence(())


@translates("SplitToSequence")
def _split(call: Call) -> Value:
    value = call.input(0)
    axis = call.axis(call.int_attr("axis", 0), value.rank)
    extent = value.shape[axis]
    if extent > call.limits.max_constant_elements:
        raise call.error(
            f"takes an axis of extent {extent:,} apart; at most "
            f"{call.limits.max_constant_elements:,} are supported"
        )
    sizes = ints(call, 1, "split") or [1] * extent
    given = call.optional(1)
    if given is not None and given.rank == 0:
        part = max(1, sizes[0])
        sizes = [min(part, extent - at) for at in range(0, extent, part)]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise call.error(f"splits extent {extent} into {sizes[:16]}")
    placed = call.builder.placed(value)
    specs = [((*value.shape[:axis], s, *value.shape[axis + 1 :]), placed.dtype) for s in sizes]
    parts = call.emit_many(
        "split_with_sizes", [placed], specs, view=True, split_sizes=tuple(sizes), dim=axis
    )
    if given is None and not call.int_attr("keepdims", 1):
        shape = (*value.shape[:axis], *value.shape[axis + 1 :])
        parts = [call.view("squeeze", p, shape, mark="squeeze", dim=axis) for p in parts]
    return _sequence(tuple(parts))


@translates("SequenceInsert")
def _insert(call: Call) -> Value:
    items = list(_items(call))
    place = call.known_ints(2, "position")[0] if call.optional(2) is not None else len(items)
    items.insert(place, call.input(1))
    return _sequence(tuple(items))


@translates("SequenceAt")
def _at(call: Call) -> Value:
    items = _items(call)
    place = call.known_ints(1, "position")[0]
    if not -len(items) <= place < len(items):
        raise call.error(f"takes item {place} of {len(items)}")
    return items[place]


@translates("SequenceLength")
def _length(call: Call) -> Value:
    return Value((), "int64", known=np.array(len(_items(call)), np.int64))


@translates("ConcatFromSequence")
def _concat(call: Call) -> Value:
    items = _items(call)
    if not items:
        raise call.error("joins an empty sequence")
    first, stacked = items[0], call.int_attr("new_axis", 0) == 1
    axis = call.axis(call.int_attr("axis"), first.rank + int(stacked))
    if stacked:
        shape = (*first.shape[:axis], len(items), *first.shape[axis:])
        return call.emit("stack", items, shape, dim=axis)
    total = sum(v.shape[axis] for v in items)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return call.emit("cat", items, shape, dim=axis)


def _sequence(items: tuple[Value, ...]) -> Value:
    return Value((), "float32", items=items)


def _items(call: Call) -> tuple[Value, ...]:
    value = call.optional(0)
    if value is None or value.items is None:
        raise call.error("takes a sequence as input 0")
    return value.items
