"""Backward of views and movement: the way back, or a sum over copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.gradients.base import Backward, differentiates


@differentiates("view", "squeeze", "unsqueeze")
def _view(step: Backward) -> Value:
    return step.viewed(step.grad, step.input(0).shape)


@differentiates("t")
def _t(step: Backward) -> Value:
    return step.view("t", step.grad, step.input(0).shape)


@differentiates("transpose")
def _transpose(step: Backward) -> Value:
    return step.view("transpose", step.grad, step.input(0).shape, carried=step.node.attrs)


@differentiates("permute")
def _permute(step: Backward) -> Value:
    order = step.attr_ints("dims")
    back = tuple(order.index(a) for a in range(len(order)))
    return step.view("permute", step.grad, step.input(0).shape, dims=back)


@differentiates("expand")
def _expand(step: Backward) -> Value:
    return step.summed_to(step.grad, step.input(0).shape)


@differentiates("select")
def _select(step: Backward) -> Value:
    x = step.input(0)
    return step.emit(
        "select_backward", [step.grad], x.shape, input_sizes=x.shape, carried=step.node.attrs
    )


@differentiates("slice")
def _slice(step: Backward) -> Value:
    x = step.input(0)
    return step.emit(
        "slice_backward", [step.grad], x.shape, input_sizes=x.shape, carried=step.node.attrs
    )


@differentiates("split_with_sizes")
def _split(step: Backward) -> Value:
    parts = [
        grad if grad is not None else step.zeros(step.output(p).shape, step.output(p).dtype)
        for p, grad in enumerate(step.grads)
    ]
    return step.emit("cat", parts, step.input(0).shape, dim=step.node.attrs["dim"])


@differentiates("cat")
def _cat(step: Backward) -> Sequence[Value | None]:
    (dim,) = step.attr_ints("dim")
    grads: list[Value | None] = []
    start = 0
    for value, wanted in zip(step.inputs, step.wanted, strict=True):
        end = start + value.shape[dim]
        part = None
        if wanted:
            part = step.view("slice", step.grad, value.shape, dim=dim, start=start, end=end, step=1)
        grads.append(part)
        start = end
    return grads


@differentiates("stack")
def _stack(step: Backward) -> Sequence[Value | None]:
    (dim,) = step.attr_ints("dim")
    return [
        step.view("select", step.grad, value.shape, dim=dim, index=index) if wanted else None
        for index, (value, wanted) in enumerate(zip(step.inputs, step.wanted, strict=True))
    ]


@differentiates("flip")
def _flip(step: Backward) -> Value:
    return step.emit("flip", [step.grad], step.grad.shape, carried=step.node.attrs)


@differentiates("repeat")
def _repeat(step: Backward) -> Value:
    x, repeats = step.input(0), step.attr_ints("repeats")
    split = tuple(e for pair in zip(repeats, x.shape, strict=True) for e in pair)
    dim = tuple(range(0, len(split), 2))
    return step.emit("sum", [step.viewed(step.grad, split)], x.shape, dim=dim, keepdim=False)


@differentiates("constant_pad_nd")
def _pad(step: Backward) -> Value:
    pad = tuple(-p for p in step.attr_ints("pad"))
    return step.emit("constant_pad_nd", [step.grad], step.input(0).shape, pad=pad, value=0)


@differentiates(*(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def _mirror(step: Backward) -> Value:
    x = step.input(0)
    return step.emit(f"{step.node.op}_backward", [step.grad, x], x.shape, carried=step.node.attrs)


@differentiates("pixel_shuffle", "pixel_unshuffle")
def _pixels(step: Backward) -> Value:
    back = "pixel_unshuffle" if step.node.op == "pixel_shuffle" else "pixel_shuffle"
    x = step.input(0)
    factor = round(
        math.sqrt(max(x.shape[1], step.grad.shape[1]) / min(x.shape[1], step.grad.shape[1]))
    )
    key = "downscale_factor" if back == "pixel_unshuffle" else "upscale_factor"
    return step.emit(back, [step.grad], x.shape, carried={key: factor})


@differentiates("tril", "triu")
def _triangle(step: Backward) -> Value:
    return step.emit(step.node.op, [step.grad], step.grad.shape, carried=step.node.attrs)
