"""Backward of whole layers, which ATen has operators for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfmodel.capture.onnx.builder import Spec, Value
from perfmodel.capture.onnx.gradients.base import Backward, differentiates
from perfmodel.graph.ir import AttrValue


def _masked(
    step: Backward, op: str, inputs: Sequence[Value | None], values: Sequence[Value],
    wanted: Sequence[bool], *, carried: Mapping[str, AttrValue] | None = None, **attrs: AttrValue,
) -> list[Value | None]:  # fmt: skip
    """Write a backward operator that returns only the gradients its ``output_mask`` asks for."""
    specs: list[Spec] = [(v.shape, v.dtype) for v, w in zip(values, wanted, strict=True) if w]
    mask = (*wanted, *[False] * (3 - len(wanted)))[:3]
    found = iter(
        step.emit_many(op, inputs, specs, output_mask=mask, carried=carried or {}, **attrs)
    )
    return [next(found) if w else None for w in wanted]


@differentiates("convolution")
def _convolution(step: Backward) -> Sequence[Value | None]:
    x, weight, *bias = step.inputs
    return _masked(
        step, "convolution_backward", [step.grad, x, weight], step.inputs, step.wanted,
        bias_sizes=bias[0].shape if bias else (0,), carried=step.node.attrs,
    )  # fmt: skip


@differentiates("native_batch_norm")
def _batch_norm(step: Backward) -> Sequence[Value | None]:
    x, weight, bias, mean, variance = step.inputs
    grads = _masked(
        step, "native_batch_norm_backward",
        [step.grad, x, weight, mean, variance, step.output(1), step.output(2)],
        [x, weight, bias], step.wanted[:3],
        train=step.node.attrs["training"], eps=step.node.attrs["eps"],
    )  # fmt: skip
    return [*grads, None, None]


@differentiates("native_layer_norm")
def _layer_norm(step: Backward) -> Sequence[Value | None]:
    x, *affine = step.inputs
    return _masked(
        step, "native_layer_norm_backward",
        [step.grad, x, step.output(1), step.output(2), *affine],
        step.inputs, step.wanted, normalized_shape=step.node.attrs["normalized_shape"],
    )  # fmt: skip


@differentiates("native_group_norm")
def _group_norm(step: Backward) -> Sequence[Value | None]:
    x, weight, _ = step.inputs
    attrs = {k: v for k, v in step.node.attrs.items() if k != "eps"}
    return _masked(
        step, "native_group_norm_backward",
        [step.grad, x, step.output(1), step.output(2), weight],
        step.inputs, step.wanted, carried=attrs,
    )  # fmt: skip


@differentiates("_fused_rms_norm")
def _rms_norm(step: Backward) -> Sequence[Value | None]:
    x, weight = step.inputs
    return _masked(
        step, "_fused_rms_norm_backward", [step.grad, x, step.output(1), weight],
        step.inputs, step.wanted, normalized_shape=step.node.attrs["normalized_shape"],
    )  # fmt: skip


@differentiates("_softmax", "_log_softmax")
def _softmax(step: Backward) -> Value:
    out, x = step.output(0), step.input(0)
    return step.emit(
        f"{step.node.op}_backward_data", [step.grad, out], out.shape, x.dtype,
        dim=step.node.attrs["dim"], input_dtype=x.dtype,
    )  # fmt: skip


@differentiates("scaled_dot_product_attention")
def _attention(step: Backward) -> Sequence[Value | None]:
    parts = step.inputs[:3]
    grads = step.emit_many(
        "scaled_dot_product_attention_backward",
        [step.grad, *step.inputs, step.output(0), step.output(1)],
        [(v.shape, v.dtype) for v in parts],
        dropout_p=0.0,
        is_causal=step.node.attrs["is_causal"],
    )
    bias: list[Value | None] = []
    if len(step.node.inputs) == 4:
        # A learned bias gets the gradient of the scores, of which the fused operator hands
        # out the sum; an unlearned one, the usual case, gets none.
        mask = step.input(3)
        bias = [step.zeros(mask.shape, mask.dtype) if step.wanted[3] else None]
    return [*grads, *bias]


@differentiates("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(step: Backward) -> Sequence[Value | None]:
    grads = step.emit_many(
        f"{step.node.op}_backward",
        [*step.inputs, step.output(0), step.grad, step.output(len(step.node.outputs) - 1)],
        [(v.shape, v.dtype) for v in step.inputs],
        carried=step.node.attrs,
    )
    return [g if w else None for g, w in zip(grads, step.wanted, strict=True)]


@differentiates("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(step: Backward) -> Value:
    x = step.input(0)
    inputs = [step.grad, x, step.output(1)]
    return step.emit(f"{step.node.op}_backward", inputs, x.shape, carried=step.node.attrs)


@differentiates("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average_pool(step: Backward) -> Value:
    x = step.input(0)
    return step.emit(f"{step.node.op}_backward", [step.grad, x], x.shape, carried=step.node.attrs)


@differentiates(
    *(f"upsample_{kind}" for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d",
                                      "bilinear2d", "trilinear3d", "bicubic2d"))
)  # fmt: skip
def _upsample(step: Backward) -> Value:
    x = step.input(0)
    return step.emit(
        f"{step.node.op}_backward",
        [step.grad],
        x.shape,
        input_size=x.shape,
        carried=step.node.attrs,
    )
