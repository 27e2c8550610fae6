"""Backward of gathers and scatters: each is the other's."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.gradients.base import Backward, differentiates


@differentiates("embedding")
def _embedding(step: Backward) -> Sequence[Value | None]:
    table, indices = step.inputs
    grad = step.emit(
        "embedding_dense_backward", [step.grad, indices], table.shape, step.grad.dtype,
        num_weights=table.shape[0], padding_idx=-1, scale_grad_by_freq=False,
    )  # fmt: skip
    return [grad, None]


@differentiates("index_select")
def _index_select(step: Backward) -> Sequence[Value | None]:
    return [_into_zeros(step, "index_add", step.input(1)), None]


@differentiates("index")
def _index(step: Backward) -> Sequence[Value | None]:
    return [_into_zeros(step, "index_put", step.input(1)), None]


@differentiates("gather")
def _gather(step: Backward) -> Sequence[Value | None]:
    return [_into_zeros(step, "scatter_add", step.input(1)), None]


@differentiates("topk")
def _topk(step: Backward) -> Value:
    return _into_zeros(step, "scatter", step.output(1))


@differentiates("scatter", "scatter_add", "index_put")
def _scatter(step: Backward) -> Sequence[Value | None]:
    data, indices, updates = step.inputs
    kept = picked = None
    if step.wanted[0]:
        overwritten = step.node.op == "scatter" or not step.node.attrs.get("accumulate", True)
        kept = step.grad
        if overwritten:
            kept = step.emit(step.node.op, [step.grad, indices], data.shape, step.grad.dtype)
    if step.wanted[2]:
        op = "index" if step.node.op == "index_put" else "gather"
        picked = step.emit(op, [step.grad, indices], updates.shape, step.grad.dtype)
    return [kept, None, picked]


@differentiates("grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(step: Backward) -> Sequence[Value | None]:
    value, grid = step.inputs
    return step.emit_many(
        f"{step.node.op}_backward",
        [step.grad, value, grid],
        [(value.shape, value.dtype), (grid.shape, grid.dtype)],
    )


def _into_zeros(step: Backward, op: str, indices: Value) -> Value:
    x = step.input(0)
    zeros = step.zeros(x.shape, step.grad.dtype)
    attrs = {k: v for k, v in step.node.attrs.items() if k == "dim"}
    return step.emit(op, [zeros, indices, step.grad], x.shape, step.grad.dtype, carried=attrs)
