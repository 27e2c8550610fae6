"""Shapes of results: rules for fused operators, and a memory for all others.

PyTorch propagates the shapes of many operators in Python at a millisecond a call; a model
repeats a few dozen distinct calls hundreds of times, so results are remembered by the geometry
of the operands. What is met for the first time is worked out by :mod:`.quick_shapes` where it can.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from perfmodel.capture.quick_shapes import Recipe, is_channels_last, quick_recipes
from perfmodel.graph.ir import AttrValue

_META = torch.device("meta")

#: Entries kept; the memory is emptied when it is full.
_CAPACITY = 50_000

_memory: dict[Any, tuple[bool, tuple[Recipe, ...]] | None] = {}
_lock = threading.Lock()


def remembered_shapes(
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    read: list[torch.Tensor],
    attrs: Mapping[str, AttrValue],
) -> Any:
    """Answer a functional operator call on meta tensors, from memory where possible.

    Parameters
    ----------
    func : torch._ops.OpOverload
        An operator that writes nothing.
    args, kwargs
        Its arguments.
    read : list of Tensor
        The tensors among them.
    attrs : mapping
        The rest of them, hashable.

    Returns
    -------
    Tensor or tuple of Tensor
        Fresh meta tensors.
    """
    absent = tuple([position for position, value in enumerate(args) if value is None])
    key = (
        func,
        *[(t.shape, t.stride(), t.dtype) for t in read],
        tuple(attrs.items()),
        absent,
    )
    compute = LAYOUT_RULES.get(func, func)
    if key in _memory:
        recipe = _memory[key]
        return compute(*args, **kwargs) if recipe is None else _remake(recipe)
    recipe = quick_recipes(func, args, kwargs)
    if recipe is not None:
        _keep(key, recipe)
        return _remake(recipe)
    result = compute(*args, **kwargs)
    _remember(key, result, read)
    return result


def _remember(key: Any, result: Any, read: list[torch.Tensor]) -> None:
    single = isinstance(result, torch.Tensor)
    items = (result,) if single else result
    recipe: tuple[bool, tuple[Recipe, ...]] | None = None
    if isinstance(items, tuple) and all(item is None or _is_plain(item) for item in items):
        known = {t.untyped_storage()._cdata for t in read}
        present = [item for item in items if item is not None]
        if all(item.untyped_storage()._cdata not in known for item in present):
            recipe = (single, tuple(None if item is None else _recipe(item) for item in items))
    _keep(key, recipe)


def _keep(key: Any, recipe: tuple[bool, tuple[Recipe, ...]] | None) -> None:
    with _lock:
        if len(_memory) >= _CAPACITY:
            _memory.clear()
        _memory[key] = recipe


def _is_plain(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.is_meta and not item.is_complex()


def _recipe(tensor: torch.Tensor) -> Recipe:
    return (tensor.shape, tensor.stride(), tensor.dtype)


def _remake(memory: tuple[bool, tuple[Recipe, ...]]) -> Any:
    single, recipes = memory
    made = [
        None
        if recipe is None
        else torch.empty_strided(recipe[0], recipe[1], dtype=recipe[2], device=_META)
        for recipe in recipes
    ]
    return made[0] if single else tuple(made)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    shape = (*query.shape[:-1], value.shape[-1])
    out = _heads_last(shape, query.dtype)
    logsumexp = torch.empty(query.shape[:-1], dtype=torch.float32, device=_META)
    return out, logsumexp, None, None, query.shape[-2], key.shape[-2], None, None, None


def _attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    grad_input_mask: list[bool],
    *rest: Any,
    **options: Any,
) -> tuple[torch.Tensor | None, ...]:
    grads = [_heads_last(tuple(t.shape), t.dtype) for t in (query, key, value)]
    wanted = attn_bias is not None and grad_input_mask[3]
    return (*grads, torch.empty_like(attn_bias) if wanted and attn_bias is not None else None)


def _convolution(x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    out: torch.Tensor = torch.ops.aten.convolution.default(x, weight, *rest)
    return _laid_out_like(x, weight, out)


def _convolution_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *rest: Any
) -> tuple[torch.Tensor | None, ...]:
    grads = torch.ops.aten.convolution_backward.default(grad, x, weight, *rest)
    return tuple(None if g is None else _laid_out_like(x, weight, g) for g in grads)


def _laid_out_like(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Lay a result out channels last when either operand is, as real convolutions do."""
    if out.dim() != 4 or not (is_channels_last(x) or is_channels_last(weight)):
        return out
    return torch.empty(out.shape, dtype=out.dtype, device=_META, memory_format=torch.channels_last)


def _heads_last(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Make (batch, heads, length, width) laid out as the fused kernels write it."""
    if len(shape) != 4:
        return torch.empty(shape, dtype=dtype, device=_META)
    batch, heads, length, width = shape
    return torch.empty((batch, length, heads, width), dtype=dtype, device=_META).transpose(1, 2)


def _recurrent(
    inputs: torch.Tensor,
    weight: list[torch.Tensor],
    weight_stride0: int,
    weight_buf: torch.Tensor | None,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    mode: int,
    hidden_size: int,
    proj_size: int,
    num_layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    *rest: Any,
) -> tuple[torch.Tensor, ...]:
    directions = 2 if bidirectional else 1
    width = proj_size or hidden_size
    out = inputs.new_empty((*inputs.shape[:-1], directions * width))
    steps = inputs.shape[0] * inputs.shape[1]
    # The gate values of every step are kept for the backward pass.
    gates = weight[1].shape[0]
    kept = steps * directions * num_layers * gates if train else 0
    none = inputs.new_empty(0)
    last_cell = none if cx is None else torch.empty_like(cx)
    return out, torch.empty_like(hx), last_cell, inputs.new_empty(kept), none


def _recurrent_backward(
    inputs: torch.Tensor,
    weight: list[torch.Tensor],
    weight_stride0: int,
    weight_buf: torch.Tensor | None,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    *rest: Any,
) -> tuple[Any, ...]:
    grad_cell = None if cx is None else torch.empty_like(cx)
    grads = [torch.empty_like(w) for w in weight]
    return torch.empty_like(inputs), torch.empty_like(hx), grad_cell, grads


def _ctc_loss_backward(grad: torch.Tensor, log_probs: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty_like(log_probs)


#: Operators whose layouts PyTorch does not know on meta tensors, and how they are worked out.
LAYOUT_RULES: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {
        torch.ops.aten.convolution.default: _convolution,
        torch.ops.aten.convolution_backward.default: _convolution_backward,
    }
)

#: Operators whose shapes PyTorch does not know on meta tensors.
SHAPE_RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "scaled_dot_product_attention": _attention,
        "scaled_dot_product_attention_backward": _attention_backward,
        "_cudnn_rnn": _recurrent,
        "_cudnn_rnn_backward": _recurrent_backward,
        "_ctc_loss_backward": _ctc_loss_backward,
    }
)
