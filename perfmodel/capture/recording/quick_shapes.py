"""Shapes of common results, worked out without asking PyTorch.

On meta tensors PyTorch takes activations, normalisations and their gradients apart into a dozen
simpler operators each, in Python: one to four milliseconds for a shape that is a copy of that of
an operand. A model has some fifty such geometries that no model before it had. The rules below
cover operands without ambiguity in their layout and say nothing about all others; what they say is
what PyTorch says, strides included, and a test holds them to it.

The layout of an elementwise result is that of its first operand wherever this is dense and each
of its strides differs from the others: PyTorch orders the dimensions of a result by the strides of
the operands, the first one first, and only ties are left to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from perfmodel.capture.layouts import (
    channels_last,
    contiguous,
    is_channels_last,
    is_exactly_contiguous,
    is_plain,
    is_plain_made_contiguous,
    like,
)

_NUMBERS = (int, float, bool, str, type(None))


def quick_recipes(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return what an operator makes of meta tensors, or None where no rule speaks for them.

    Returns
    -------
    tuple or None
        Whether a single tensor comes back, and a recipe for each.

    Examples
    --------
    >>> image = torch.empty(8, 3, 4, 4, device="meta")
    >>> quick_recipes(torch.ops.aten.silu.default, (image,), {})
    (True, ((torch.Size([8, 3, 4, 4]), (48, 16, 4, 1), torch.float32),))
    """
    rule = _RULES.get(func)
    return None if rule is None else rule(args, kwargs)


def keeps_geometry(func: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether an operator certainly leaves its first operand as it is but for the values."""
    if func not in _IN_PLACE:
        return False
    first = args[0]
    for value in args[1:]:
        if isinstance(value, torch.Tensor):
            if value.shape != first.shape or value.dtype is not first.dtype:
                return False
        elif type(value) not in _NUMBERS:
            return False
    return bool(first.is_floating_point())


def _elementwise(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Answer operands of one shape and layout, and numbers."""
    first = args[0]
    if not is_plain(first):
        return None
    for value in (*args[1:], *kwargs.values()):
        if isinstance(value, torch.Tensor):
            if value.dtype is not first.dtype or value.shape != first.shape:
                return None
            if value.stride() != first.stride():
                return None
        elif type(value) not in _NUMBERS:
            return None
    return (True, (like(first),))


def _broadcast(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Answer a second operand that is a number, or is stretched to the first."""
    first, second = args[0], args[1]
    if len(args) != 2 or not is_plain(first):
        return None
    if any(type(value) not in _NUMBERS for value in kwargs.values()):
        return None
    if isinstance(second, torch.Tensor):
        if second.dtype is not first.dtype or second.dim() > first.dim():
            return None
        pairs = zip(reversed(second.shape), reversed(first.shape), strict=False)
        if any(extent not in (1, whole) for extent, whole in pairs):
            return None
    elif type(second) not in _NUMBERS:
        return None
    return (True, (like(first),))


def _exact(dtype: torch.dtype) -> torch.dtype:
    """Return the type that sums are kept in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _batch_norm(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    x, mean, variance = args[0], args[3], args[4]
    if x.dim() < 2 or not is_plain(x) or not (args[5] or (mean is not None)):
        return None
    if (mean is None) != (variance is None) or (args[5] and x.numel() == x.shape[1]):
        return None
    if any(t is not None and t.shape != x.shape[1:2] for t in args[1:5]):
        return None
    moment = ((x.shape[1],), (1,), _exact(x.dtype))
    return (False, (like(x), moment, moment))


def _batch_norm_backward(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    grad, x, weight, mask = args[0], args[1], args[2], args[9]
    if x.dim() < 2 or not is_plain(x) or grad.shape != x.shape or grad.dtype is not x.dtype:
        return None
    if grad.stride() != x.stride():
        return None
    of_channel = ((x.shape[1],), (1,), x.dtype if weight is None else weight.dtype)
    return (False, (like(x), *(of_channel if wanted else None for wanted in mask[1:])))


def _layer_norm(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    x, normalized, weight, bias = args[:4]
    shape, inner = x.shape, tuple(normalized)
    if len(inner) >= len(shape) or tuple(shape[-len(inner) :]) != inner:
        return None
    if not is_plain_made_contiguous(x):
        return None
    for tensor in (weight, bias):
        if tensor is not None and (tuple(tensor.shape) != inner or not tensor.is_contiguous()):
            return None
    moment = contiguous((*shape[: -len(inner)], *([1] * len(inner))), _exact(x.dtype))
    return (False, (contiguous(shape, x.dtype), moment, moment))


def _layer_norm_backward(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    grad, x, normalized, _, _, weight, bias, mask = args
    inner = tuple(normalized)
    if len(inner) >= x.dim() or grad.shape != x.shape:
        return None
    if not all(is_plain(tensor) and tensor.is_contiguous() for tensor in (x, grad)):
        return None
    learned = [
        contiguous(inner, tensor.dtype) if wanted and tensor is not None else None
        for tensor, wanted in zip((weight, bias), mask[1:], strict=True)
    ]
    return (False, (contiguous(x.shape, x.dtype) if mask[0] else None, *learned))


def _reduction(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Answer sums and means over some dimensions of contiguous tensors."""
    x, axes = args[0], args[1]
    if not axes or len(args) > 3 or any(value is not None for value in kwargs.values()):
        return None
    if 0 in x.shape or not x.is_floating_point() or not is_exactly_contiguous(x):
        return None
    rank, kept = x.dim(), len(args) > 2 and args[2]
    gone = {axis % rank for axis in axes if -rank <= axis < rank}
    if len(gone) < len(axes):
        return None
    extents = [1 if i in gone else e for i, e in enumerate(x.shape) if kept or i not in gone]
    return (True, (contiguous(extents, x.dtype),))


def _group_norm(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    x, weight, bias, count, width, pixels, groups, _ = args
    if not _is_grouped(x, (count, width, pixels), groups):
        return None
    if any(t is not None and (t.dtype is not x.dtype or t.dim() != 1) for t in (weight, bias)):
        return None
    moment = contiguous((count, groups), x.dtype)
    return (False, (contiguous(x.shape, x.dtype), moment, moment))


def _group_norm_backward(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    grad, x, mean, rstd, weight, count, width, pixels, groups, mask = args
    if not _is_grouped(x, (count, width, pixels), groups) or weight is None:
        return None
    if grad.shape != x.shape or not is_exactly_contiguous(grad):
        return None
    if any(tensor.dtype is not x.dtype for tensor in (grad, mean, rstd, weight)):
        return None
    of_input, of_channel = contiguous(x.shape, x.dtype), contiguous((width,), x.dtype)
    all_three = (of_input, of_channel, of_channel)
    return (False, tuple(r if wanted else None for r, wanted in zip(all_three, mask, strict=True)))


def _is_grouped(x: torch.Tensor, extents: tuple[int, int, int], groups: int) -> bool:
    """Tell a contiguous tensor of so many samples, channels and pixels, cut into groups."""
    if x.dim() < 2 or tuple(x.shape[:2]) != extents[:2] or x.numel() != math.prod(extents):
        return False
    whole = x.numel() > 0 and groups > 0 and extents[1] % groups == 0
    return whole and x.is_floating_point() and is_exactly_contiguous(x)


def _convolution(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Answer convolutions of images, laid out channels last where either operand is."""
    if len(args) != 9 or args[6]:
        return None
    x, weight, bias, steps, paddings, dilations, _, _, groups = args
    if x.dim() != 4 or weight.dim() != 4 or x.shape[1] != weight.shape[1] * groups:
        return None
    # What PyTorch refuses is left to it.
    if weight.dtype is not x.dtype or weight.shape[0] % groups:
        return None
    if bias is not None and (bias.dtype is not x.dtype or bias.shape != weight.shape[:1]):
        return None
    if not len(steps) == len(paddings) == len(dilations) == 2 or 0 in x.shape:
        return None
    rows, columns = (
        (x.shape[2 + i] + 2 * paddings[i] - dilations[i] * (weight.shape[2 + i] - 1) - 1)
        // steps[i]
        + 1
        for i in (0, 1)
    )
    if rows < 1 or columns < 1:
        return None
    shape = (x.shape[0], weight.shape[0], rows, columns)
    if not (is_channels_last(x) or is_channels_last(weight)):
        return (True, (contiguous(shape, x.dtype),))
    return (True, (channels_last(shape, x.dtype),))


def _convolution_backward(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Answer gradients of convolutions of images, each laid out as :func:`_convolution` does."""
    if len(args) != 11:
        return None
    grad, x, weight, bias_size, mask = *args[:4], args[10]
    if x.dim() != 4 or weight.dim() != 4 or not (grad.dtype is x.dtype is weight.dtype):
        return None
    if 0 in x.shape or 0 in weight.shape or (mask[2] and bias_size is None):
        return None
    last = is_channels_last(x) or is_channels_last(weight)
    # With one pixel strides alone say which layout is meant, and PyTorch goes by them.
    if not last and not all(map(is_exactly_contiguous, (grad, x, weight))):
        return None
    laid_out = channels_last if last else contiguous
    of_bias = contiguous(tuple(bias_size), x.dtype) if mask[2] else None
    of_operands = [
        laid_out(tensor.shape, x.dtype) if wanted else None
        for tensor, wanted in zip((x, weight), mask, strict=False)
    ]
    return (False, (*of_operands, of_bias))


def _addmm(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if len(args) != 3 or kwargs:
        return None
    bias, left, right = args
    if left.dim() != 2 or right.dim() != 2 or left.shape[1] != right.shape[0] or bias.dim() != 1:
        return None
    if not (bias.dtype is left.dtype is right.dtype) or not left.is_floating_point():
        return None
    shape = (left.shape[0], right.shape[1])
    if shape[1] < 2 or math.prod(shape) == 0 or bias.shape[0] != shape[1]:
        return None
    return (True, (contiguous(shape, left.dtype),))


_Rule = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]

_ALIKE = (
    "gelu", "silu", "sigmoid", "tanh", "relu", "hardswish", "hardsigmoid", "hardtanh",
    "leaky_relu", "elu", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "erf", "reciprocal",
    "threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward",
    "hardswish_backward", "hardsigmoid_backward", "hardtanh_backward", "leaky_relu_backward",
    "elu_backward",
)  # fmt: skip
_BINARY = ("add", "sub", "mul", "div")
_ALTERED = (
    "relu_", "silu_", "gelu_", "hardswish_", "hardsigmoid_", "hardtanh_", "sigmoid_", "tanh_",
    "leaky_relu_", "elu_",
)  # fmt: skip


def _overload(name: str, overload: str) -> Any:
    return getattr(getattr(torch.ops.aten, name), overload)


_RULES: Mapping[Any, _Rule] = MappingProxyType(
    {
        **{_overload(name, "default"): _elementwise for name in _ALIKE},
        _overload("pow", "Tensor_Scalar"): _elementwise,
        **{_overload(name, "Tensor"): _broadcast for name in _BINARY},
        _overload("native_batch_norm", "default"): _batch_norm,
        _overload("native_batch_norm_backward", "default"): _batch_norm_backward,
        _overload("native_layer_norm", "default"): _layer_norm,
        _overload("native_layer_norm_backward", "default"): _layer_norm_backward,
        _overload("native_group_norm", "default"): _group_norm,
        _overload("native_group_norm_backward", "default"): _group_norm_backward,
        _overload("mean", "dim"): _reduction,
        _overload("sum", "dim_IntList"): _reduction,
        _overload("addmm", "default"): _addmm,
        _overload("convolution", "default"): _convolution,
        _overload("convolution_backward", "default"): _convolution_backward,
    }
)

#: Operators that write their result over their first operand, of its shape and type.
_IN_PLACE = frozenset(
    {
        *(_overload(name, "default") for name in _ALTERED),
        *(_overload(f"{name}_", "Tensor") for name in _BINARY),
    }
)
