"""Backward of reductions: the gradient is spread over what was reduced."""

from __future__ import annotations

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.gradients.base import Backward, differentiates


def _kept(step: Backward, value: Value) -> Value:
    """View a reduced tensor with the reduced axes as extents of 1."""
    x = step.input(0)
    dims = {d % max(x.rank, 1) for d in step.attr_ints("dim")} or set(range(x.rank))
    return step.viewed(value, tuple(1 if a in dims else e for a, e in enumerate(x.shape)))


def _spread(step: Backward) -> Value:
    shape = step.input(0).shape
    return step.view("expand", _kept(step, step.grad), shape, size=shape)


@differentiates("sum")
def _sum(step: Backward) -> Value:
    return _spread(step)


@differentiates("mean")
def _mean(step: Backward) -> Value:
    x = step.input(0)
    count = x.size // max(step.output(0).size, 1)
    return step.emit("div", [_spread(step)], x.shape, other=count)


@differentiates("amax", "amin")
def _extreme(step: Backward) -> Value:
    x, out, grad = step.input(0), _kept(step, step.output(0)), _kept(step, step.grad)
    mask = step.emit("eq", [x, out], x.shape, "bool")
    count = step.emit("sum", [mask], out.shape, "int64", keepdim=True)
    share = step.emit("div", [grad, count], grad.shape, grad.dtype)
    return step.emit("mul", [share, mask], x.shape, grad.dtype)


@differentiates("logsumexp")
def _logsumexp(step: Backward) -> Value:
    x, out = step.input(0), _kept(step, step.output(0))
    weight = step.emit("exp", [step.emit("sub", [x, out], x.shape)], x.shape)
    return step.emit("mul", [_kept(step, step.grad), weight], x.shape)


@differentiates("linalg_vector_norm")
def _norm(step: Backward) -> Value:
    x = step.input(0)
    if step.node.attrs.get("ord") == 1:
        direction = step.emit("sgn", [x], x.shape)
        return step.emit("mul", [direction, _kept(step, step.grad)], x.shape)
    ratio = step.emit(
        "div", [_kept(step, step.grad), _kept(step, step.output(0))], _kept(step, step.grad).shape
    )
    return step.emit("mul", [x, ratio], x.shape)


@differentiates("cumsum")
def _cumsum(step: Backward) -> Value:
    shape, dim = step.grad.shape, step.attr_ints("dim")
    turned = step.emit("flip", [step.grad], shape, dims=dim)
    summed = step.emit("cumsum", [turned], shape, dim=dim[0])
    return step.emit("flip", [summed], shape, dims=dim)
