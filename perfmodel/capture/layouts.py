"""Layouts of meta tensors: which are beyond doubt, and how fresh ones are laid out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

#: Shape, strides and type of a fresh tensor; None where an operator answers nothing.
Recipe = tuple[tuple[int, ...], tuple[int, ...], torch.dtype] | None


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell a dense tensor whose strides say which dimension lies outside of which.

    An extent of 1 leaves that open, unless it is the first and lies outside of all others.
    """
    shape = tensor.shape
    if not _has_order(shape) or not tensor.is_floating_point():
        return False
    if shape[0] == 1 and tensor.stride(0) != tensor.numel():
        return False
    return tensor.is_contiguous() or (
        len(shape) == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    )


def _has_order(shape: torch.Size) -> bool:
    return bool(shape) and 1 not in shape[1:] and 0 not in shape


def is_plain_made_contiguous(tensor: torch.Tensor) -> bool:
    """Tell what :func:`is_plain` says of a tensor after ``contiguous()``."""
    if tensor.is_contiguous():
        return is_plain(tensor)
    return _has_order(tensor.shape) and tensor.is_floating_point()


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Tell an image that is laid out channels last, and not channels first as well.

    With one channel, or one pixel, both layouts hold at once: then neither is asked for.
    """
    return (
        tensor.dim() == 4
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=torch.channels_last)
    )


def like(tensor: torch.Tensor) -> Recipe:
    """Lay a tensor out as another one is."""
    return (tensor.shape, tensor.stride(), tensor.dtype)


def contiguous(shape: Sequence[int], dtype: torch.dtype) -> Recipe:
    """Lay a tensor out with its last dimension innermost."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return (tuple(shape), tuple(reversed(strides)), dtype)


def is_exactly_contiguous(tensor: torch.Tensor) -> bool:
    """Tell a contiguous tensor whose strides are those of a fresh one, extents of 1 included."""
    step = 1
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if stride != step:
            return False
        step *= max(extent, 1)
    return True


def channels_last(shape: Sequence[int], dtype: torch.dtype) -> Recipe:
    """Lay an image out with its channels innermost."""
    count, width, rows, columns = shape
    return (
        (count, width, rows, columns),
        (rows * columns * width, 1, columns * width, width),
        dtype,
    )
