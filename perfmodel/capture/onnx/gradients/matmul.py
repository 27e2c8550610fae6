"""Backward of matrix products: two products of the same size each."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.gradients.base import Backward, differentiates


def _t(step: Backward, value: Value) -> Value:
    return step.view("t", value, value.shape[::-1])


def _pair(step: Backward, first: int) -> list[Value | None]:
    left, right = step.input(first), step.input(first + 1)
    grads: list[Value | None] = [None, None]
    if step.wanted[first]:
        grads[0] = step.emit("mm", [step.grad, _t(step, right)], left.shape)
    if step.wanted[first + 1]:
        maker = step.made_by.get(right.index)
        if maker is not None and maker.op == "t":
            # As autograd does for a transposed weight: the gradient of the weight itself.
            flat = step.emit("mm", [_t(step, step.grad), left], right.shape[::-1])
            grads[1] = _t(step, flat)
        else:
            grads[1] = step.emit("mm", [_t(step, left), step.grad], right.shape)
    return grads


@differentiates("mm")
def _mm(step: Backward) -> Sequence[Value | None]:
    return _pair(step, 0)


@differentiates("addmm")
def _addmm(step: Backward) -> Sequence[Value | None]:
    bias = step.summed_to(step.grad, step.input(0).shape) if step.wanted[0] else None
    return [bias, *_pair(step, 1)]


@differentiates("bmm")
def _bmm(step: Backward) -> Sequence[Value | None]:
    left, right = step.inputs
    grads: list[Value | None] = [None, None]
    if step.wanted[0]:
        grads[0] = step.emit("bmm", [step.grad, _transposed(step, right)], left.shape)
    if step.wanted[1]:
        grads[1] = step.emit("bmm", [_transposed(step, left), step.grad], right.shape)
    return grads


def _transposed(step: Backward, value: Value) -> Value:
    shape = (value.shape[0], value.shape[2], value.shape[1])
    return step.view("transpose", value, shape, dim0=1, dim1=2)
