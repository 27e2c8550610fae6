"""Views and movement: reshape, transpose, concatenate, slice, pad, expand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import Call, translates
from perfmodel.capture.onnx.rules.elementwise import broadcast


def ints(call: Call, position: int, attribute: str) -> list[int] | None:
    """Return a list of integers that newer opsets pass as input and older ones as attribute."""
    if call.optional(position) is not None:
        return call.known_ints(position, attribute)
    return call.ints_attr(attribute)


def axes_of(call: Call, position: int, rank: int) -> list[int] | None:
    """Return the ``axes`` of a call, counted from the front; None where none are given."""
    axes = ints(call, position, "axes")
    if axes is None:
        return None
    positive = [call.axis(a, rank) for a in axes]
    if len(set(positive)) != len(positive):
        raise call.error(f"names an axis twice in {axes}")
    return positive


def reshaped(call: Call) -> tuple[int, ...]:
    """Return the result's shape of Reshape, Flatten, Squeeze and Unsqueeze."""
    value = call.input(0)
    if call.node.op == "Flatten":
        axis = call.int_attr("axis", 1)
        axis = axis + value.rank if axis < 0 else axis
        if not 0 <= axis <= value.rank:
            raise call.error(f"flattens at axis {axis}, but there are {value.rank} dimensions")
        return math.prod(value.shape[:axis]), math.prod(value.shape[axis:])
    if call.node.op == "Reshape":
        return _reshape_target(call, value)
    if call.node.op == "Squeeze":
        axes = axes_of(call, 1, value.rank)
        chosen = [a for a, e in enumerate(value.shape) if e == 1] if axes is None else axes
        if any(value.shape[a] != 1 for a in chosen):
            raise call.error(f"squeezes axes {chosen} of {list(value.shape)}, not all of extent 1")
        return tuple(e for a, e in enumerate(value.shape) if a not in chosen)
    return _unsqueezed(call, value)


def _unsqueezed(call: Call, value: Value) -> tuple[int, ...]:
    raw = ints(call, 1, "axes")
    if raw is None:
        raise call.error("has no axes")
    if len(raw) + value.rank > call.limits.max_rank:
        raise call.error(
            f"adds {len(raw)} dimensions; at most {call.limits.max_rank} are supported"
        )
    rank = value.rank + len(raw)
    axes = {call.axis(a, rank) for a in raw}
    if len(axes) != len(raw):
        raise call.error(f"names an axis twice in {raw}")
    rest = iter(value.shape)
    return tuple(1 if a in axes else next(rest) for a in range(rank))


def _reshape_target(call: Call, value: Value) -> tuple[int, ...]:
    target = ints(call, 1, "shape")
    if target is None:
        raise call.error("has no shape to reshape to")
    keep_zero = call.int_attr("allowzero", 0) == 1
    shape = [
        value.shape[a] if e == 0 and not keep_zero and a < value.rank else e
        for a, e in enumerate(target)
    ]
    if shape.count(-1) > 1 or any(e < -1 for e in shape):
        raise call.error(f"reshapes to {target}, which is no shape")
    known = math.prod(e for e in shape if e != -1)
    if -1 in shape:
        if known == 0 or value.size % known:
            raise call.error(f"cannot reshape {list(value.shape)} to {target}")
        shape[shape.index(-1)] = value.size // known
    if math.prod(shape) != value.size:
        raise call.error(f"cannot reshape {list(value.shape)} to {target}")
    return tuple(shape)


@translates("Reshape", "Flatten")
def _reshape(call: Call) -> Value:
    shape = reshaped(call)
    return call.view("view", call.input(0), shape, size=shape)


@translates("Squeeze")
def _squeeze(call: Call) -> Value:
    shape = reshaped(call)
    axes = axes_of(call, 1, call.input(0).rank)
    return call.view("squeeze", call.input(0), shape, dim=tuple(axes or ()))


@translates("Unsqueeze")
def _unsqueeze(call: Call) -> Value:
    shape = reshaped(call)
    axes = ints(call, 1, "axes") or [0]
    dim = axes[0] if len(axes) == 1 else tuple(axes)
    return call.view("unsqueeze", call.input(0), shape, dim=dim)


@translates("Transpose")
def _transpose(call: Call) -> Value:
    value = call.input(0)
    order = call.ints_attr("perm", range(value.rank - 1, -1, -1)) or []
    if sorted(order) != list(range(value.rank)):
        raise call.error(f"permutes {value.rank} dimensions by {order}")
    shape = tuple(value.shape[a] for a in order)
    if order == [1, 0]:
        return call.view("t", value, shape)
    return call.view("permute", value, shape, dims=tuple(order))


@translates("Expand")
def _expand(call: Call) -> Value:
    value = call.input(0)
    shape = broadcast(call, value.shape, call.known_ints(1, "shape"))
    return call.view("expand", value, shape, size=shape)


@translates("Concat")
def _concat(call: Call) -> Value:
    values = [call.input(p) for p in range(len(call.inputs))]
    first = values[0]
    axis = call.axis(call.int_attr("axis", 1), first.rank)
    rest = {v.shape[:axis] + v.shape[axis + 1 :] for v in values if v.rank == first.rank}
    if len(rest) != 1 or any(v.rank != first.rank for v in values):
        raise call.error(f"joins shapes {[list(v.shape) for v in values]} along axis {axis}")
    total = sum(v.shape[axis] for v in values)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return call.emit("cat", values, shape, dim=axis)


def split_sizes(call: Call) -> tuple[int, list[int]]:
    """Return the axis and the extents of the parts of a Split."""
    value = call.input(0)
    axis = call.axis(call.int_attr("axis", 0), value.rank)
    extent = value.shape[axis]
    sizes = ints(call, 1, "split")
    if sizes is None:
        count = call.int_attr("num_outputs", len(call.node.outputs))
        if not 1 <= count == len(call.node.outputs):
            raise call.error(f"has {len(call.node.outputs)} outputs for {count} parts")
        part = math.ceil(extent / count)
        sizes = [min(part, max(0, extent - part * p)) for p in range(count)]
    if sum(sizes) != extent or min(sizes) < 0 or len(sizes) != len(call.node.outputs):
        raise call.error(f"splits extent {extent} into {sizes[:16]}")
    return axis, sizes


@translates("Split")
def _split(call: Call) -> Sequence[Value]:
    value = call.builder.placed(call.input(0))
    axis, sizes = split_sizes(call)
    specs = [((*value.shape[:axis], size, *value.shape[axis + 1 :]), value.dtype) for size in sizes]
    return call.emit_many(
        "split_with_sizes", [value], specs, view=True, split_sizes=tuple(sizes), dim=axis
    )


def slices_of(call: Call) -> list[tuple[int, int, int, int]]:
    """Return axis, start, end and step of each sliced axis, clamped into the tensor."""
    value = call.input(0)
    starts, ends = ints(call, 1, "starts"), ints(call, 2, "ends")
    if starts is None or ends is None:
        raise call.error("has no starts or no ends")
    axes = axes_of(call, 3, value.rank) or list(range(len(starts)))
    steps = call.known_ints(4, "steps") if call.optional(4) is not None else [1] * len(starts)
    found = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise call.error("slices with step 0")
        extent = value.shape[call.axis(axis, value.rank)]
        clamped = slice(start, end if step > 0 or end >= -extent else None, step).indices(extent)
        found.append((axis, *clamped))
    return found


@translates("Slice")
def _slice(call: Call) -> Value:
    value = call.input(0)
    for axis, start, end, step in slices_of(call):
        extent = len(range(start, end, step))
        if extent == value.shape[axis] and step == 1:
            continue
        shape = (*value.shape[:axis], extent, *value.shape[axis + 1 :])
        if step > 0:
            value = call.view("slice", value, shape, dim=axis, start=start, end=end, step=step)
        else:
            value = call.emit("flip", [value], shape, dims=(axis,))
    return value


@translates("Tile")
def _tile(call: Call) -> Value:
    value, repeats = call.input(0), call.known_ints(1, "repeats")
    if len(repeats) != value.rank or any(r < 0 for r in repeats):
        raise call.error(f"tiles {list(value.shape)} by {repeats}")
    shape = tuple(e * r for e, r in zip(value.shape, repeats, strict=True))
    return call.emit("repeat", [value], shape, repeats=tuple(repeats))


@translates("Pad")
def _pad(call: Call) -> Value:
    value = call.input(0)
    legacy = call.ints_attr("paddings") if "paddings" in call.attrs else None
    pads = legacy or ints(call, 1, "pads") or []
    axes = axes_of(call, 3, value.rank) if call.optional(3) is not None else None
    chosen = list(range(value.rank)) if axes is None else axes
    if len(pads) != 2 * len(chosen):
        raise call.error(f"pads {len(chosen)} axes by {pads}")
    before, after = [0] * value.rank, [0] * value.rank
    for position, axis in enumerate(chosen):
        before[axis], after[axis] = pads[position], pads[position + len(chosen)]
    return padded(call, value, before, after, call.text_attr("mode", "constant"))


def padded(
    call: Call,
    value: Value,
    before: Sequence[int],
    after: Sequence[int],
    mode: str = "constant",
    mark: str = "",
) -> Value:
    """Write a padding, with ATen's order of pads (last axis first)."""
    shape = tuple(b + e + a for b, e, a in zip(before, value.shape, after, strict=True))
    if min(shape, default=0) < 0:
        raise call.error(f"pads {list(value.shape)} to the negative shape {list(shape)}")
    axes = [a for a in range(value.rank - 1, -1, -1)]
    touched = max((value.rank - a for a in axes if before[a] or after[a]), default=0)
    if touched == 0:
        return value
    pad = tuple(n for a in axes[:touched] for n in (before[a], after[a]))
    if mode == "constant":
        return call.emit("constant_pad_nd", [value], shape, mark=mark, pad=pad, value=0)
    name = {"reflect": "reflection_pad", "edge": "replication_pad"}.get(mode)
    if name is None or touched > 3:
        return call.emit(f"onnx::Pad_{mode}", [value], shape, mark=mark, pad=pad)
    return call.emit(f"{name}{touched}d", [value], shape, mark=mark, padding=pad)


@translates("DepthToSpace")
def _depth_to_space(call: Call) -> Value:
    value, block = call.input(0), call.int_attr("blocksize")
    batch, channels, height, width = value.shape
    if block < 1 or channels % (block * block):
        raise call.error(f"splits {channels} channels into blocks of {block}")
    shape = (batch, channels // block**2, height * block, width * block)
    return call.emit("pixel_shuffle", [value], shape, upscale_factor=block)


@translates("SpaceToDepth")
def _space_to_depth(call: Call) -> Value:
    value, block = call.input(0), call.int_attr("blocksize")
    batch, channels, height, width = value.shape
    if block < 1 or height % block or width % block:
        raise call.error(f"splits {height} x {width} into blocks of {block}")
    shape = (batch, channels * block**2, height // block, width // block)
    return call.emit("pixel_unshuffle", [value], shape, downscale_factor=block)


@translates("Trilu")
def _trilu(call: Call) -> Value:
    value = call.input(0)
    offset = call.optional(1)
    diagonal = int(offset.known.reshape(-1)[0]) if offset and offset.known is not None else 0
    op = "triu" if call.int_attr("upper", 1) else "tril"
    return call.emit(op, [value], value.shape, diagonal=diagonal)


@translates("ReverseSequence")
def _reverse(call: Call) -> Value:
    value = call.input(0)
    return call.emit("flip", [value], value.shape, dims=(call.int_attr("time_axis", 0),))
