"""Backward of operators that work element by element."""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.gradients.base import Backward, differentiates

#: Activations with a backward operator of their own: forward name -> what it reads.
_OF_INPUT = (
    "leaky_relu", "silu", "gelu", "hardswish", "hardsigmoid", "softplus", "mish", "hardtanh",
    "elu", "softshrink",
)  # fmt: skip
_OF_OUTPUT = ("sigmoid", "tanh")


@differentiates(*_OF_INPUT)
def _of_input(step: Backward) -> Value:
    x = step.input(0)
    return step.emit(f"{step.node.op}_backward", [step.grad, x], x.shape, carried=step.node.attrs)


@differentiates(*_OF_OUTPUT)
def _of_output(step: Backward) -> Value:
    out = step.output(0)
    return step.emit(f"{step.node.op}_backward", [step.grad, out], out.shape)


@differentiates("relu", "threshold")
def _threshold(step: Backward) -> Value:
    seen = step.output(0) if step.node.op == "relu" else step.input(0)
    limit = step.node.attrs.get("threshold", 0)
    return step.emit("threshold_backward", [step.grad, seen], seen.shape, threshold=limit)


@differentiates("_prelu_kernel")
def _prelu(step: Backward) -> Sequence[Value]:
    x, slope = step.input(0), step.input(1)
    grad_x, grad_slope = step.emit_many(
        "_prelu_kernel_backward", [step.grad, x, slope], [(x.shape, x.dtype)] * 2
    )
    return [grad_x, step.summed_to(grad_slope, slope.shape)]


@differentiates("exp")
def _exp(step: Backward) -> Value:
    return _times(step, step.grad, step.output(0))


@differentiates("log")
def _log(step: Backward) -> Value:
    return step.emit("div", [step.grad, step.input(0)], step.grad.shape)


@differentiates("sqrt")
def _sqrt(step: Backward) -> Value:
    twice = step.emit("mul", [step.output(0)], step.grad.shape, other=2)
    return step.emit("div", [step.grad, twice], step.grad.shape)


@differentiates("reciprocal")
def _reciprocal(step: Backward) -> Value:
    square = _times(step, step.output(0), step.output(0))
    return _times(step, step.emit("neg", [step.grad], step.grad.shape), square)


@differentiates("neg")
def _neg(step: Backward) -> Value:
    return step.emit("neg", [step.grad], step.grad.shape)


@differentiates("abs")
def _abs(step: Backward) -> Value:
    return _times(step, step.grad, step.emit("sgn", [step.input(0)], step.grad.shape))


@differentiates("sin", "cos", "sinh", "cosh")
def _circular(step: Backward) -> Value:
    other = {"sin": "cos", "cos": "sin", "sinh": "cosh", "cosh": "sinh"}[step.node.op]
    slope = step.emit(other, [step.input(0)], step.grad.shape)
    if step.node.op == "cos":
        slope = step.emit("neg", [slope], slope.shape)
    return _times(step, step.grad, slope)


@differentiates("atan", "tan")
def _arc(step: Backward) -> Value:
    # d tan = 1 + tan^2, d atan = 1 / (1 + x^2)
    tan = step.node.op == "tan"
    seen = step.output(0) if tan else step.input(0)
    slope = step.emit("add", [_times(step, seen, seen)], seen.shape, other=1)
    return step.emit("mul" if tan else "div", [step.grad, slope], step.grad.shape)


@differentiates("erf")
def _erf(step: Backward) -> Value:
    # d erf = 2 / sqrt(pi) * exp(-x^2)
    x = step.input(0)
    square = step.emit("pow", [x], x.shape, exponent=2)
    bell = step.emit("exp", [step.emit("neg", [square], x.shape)], x.shape)
    scaled = step.emit("mul", [bell], x.shape, other=1.1283791670955126)
    return _times(step, scaled, step.grad)


@differentiates("add", "sub")
def _sum(step: Backward) -> Sequence[Value | None]:
    operands = zip(step.inputs, step.wanted, strict=True)
    grads = [step.summed_to(step.grad, v.shape) if wanted else None for v, wanted in operands]
    if step.node.op == "sub" and len(grads) > 1 and grads[1] is not None:
        grads[1] = step.emit("neg", [grads[1]], grads[1].shape)
    return grads


@differentiates("mul")
def _mul(step: Backward) -> Sequence[Value | None]:
    if len(step.node.inputs) == 1:
        return [_scaled(step, "mul")]
    left, right = step.inputs
    grads: list[Value | None] = []
    for own, other, wanted in ((left, right, step.wanted[0]), (right, left, step.wanted[1])):
        product = _times(step, step.grad, other) if wanted else None
        grads.append(None if product is None else step.summed_to(product, own.shape))
    return grads


@differentiates("div")
def _div(step: Backward) -> Sequence[Value | None]:
    if len(step.node.inputs) == 1:
        return [_scaled(step, "div")]
    left, right = step.inputs
    shape = step.grad.shape
    first = second = None
    if step.wanted[0]:
        first = step.summed_to(step.emit("div", [step.grad, right], shape), left.shape)
    if step.wanted[1]:
        ratio = step.emit("div", [step.output(0), right], shape)
        product = _times(step, step.emit("neg", [step.grad], shape), ratio)
        second = step.summed_to(product, right.shape)
    return [first, second]


@differentiates("pow")
def _pow(step: Backward) -> Sequence[Value | None]:
    base, shape = step.input(0), step.grad.shape
    exponent = step.inputs[1:]
    first = second = None
    if step.wanted[0]:
        lower = step.emit("pow", [base, *exponent], shape, carried=step.node.attrs)
        scaled = step.emit("mul", [lower, *exponent], shape)
        first = step.summed_to(_times(step, step.grad, scaled), base.shape)
    if exponent and step.wanted[1]:
        slope = _times(step, step.output(0), step.emit("log", [base], base.shape))
        second = step.summed_to(_times(step, step.grad, slope), exponent[0].shape)
    return [first, second][: len(step.node.inputs)]


@differentiates("maximum", "minimum")
def _extreme(step: Backward) -> Sequence[Value | None]:
    left, right = step.inputs
    op = "ge" if step.node.op == "maximum" else "le"
    mask = step.emit(op, [left, right], step.grad.shape, "bool")
    return _masked_pair(step, mask, (left, right), step.wanted)


@differentiates("where")
def _where(step: Backward) -> Sequence[Value | None]:
    mask, left, right = step.inputs
    return [None, *_masked_pair(step, mask, (left, right), step.wanted[1:])]


@differentiates("clamp")
def _clamp(step: Backward) -> Sequence[Value | None]:
    x = step.input(0)
    masks = [
        step.emit(op, [x], x.shape, "bool")
        for op, bound in (("ge", "min"), ("le", "max"))
        if bound in step.node.attrs
    ] or [step.emit("ge", [x], x.shape, "bool")]
    mask = masks[0]
    if len(masks) == 2:
        mask = step.emit("logical_and", masks, x.shape, "bool")
    grad = step.emit("where", [mask, step.grad], x.shape, step.grad.dtype)
    return [grad, *[None] * (len(step.node.inputs) - 1)]


@differentiates("_to_copy")
def _to_copy(step: Backward) -> Value:
    return step.cast(step.grad, step.input(0).dtype)


@differentiates("native_dropout")
def _dropout(step: Backward) -> Value:
    mask = step.output(1)
    return step.emit("native_dropout_backward", [step.grad, mask], step.grad.shape)


def _times(step: Backward, left: Value, right: Value) -> Value:
    shape = max(left.shape, right.shape, key=lambda s: (len(s), s))
    if left.shape != right.shape:
        shape = step.grad.shape
    return step.emit("mul", [left, right], shape)


def _scaled(step: Backward, op: str) -> Value:
    return step.emit(op, [step.grad], step.grad.shape, carried=step.node.attrs)


def _masked_pair(
    step: Backward, mask: Value, pair: tuple[Value, Value], wanted: Sequence[bool]
) -> list[Value | None]:
    shape = step.grad.shape
    grads: list[Value | None] = []
    for value, is_wanted in zip(pair, wanted, strict=True):
        kept = step.emit("where", [mask, step.grad], shape, step.grad.dtype) if is_wanted else None
        grads.append(None if kept is None else step.summed_to(kept, value.shape))
    return grads
