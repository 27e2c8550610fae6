"""Shapes of results: rules for fused operators, and a memory for all others.

PyTorch propagates the shapes of many operators in Python at a millisecond a call; a model
repeats a few dozen distinct calls hundreds of times, so results are remembered by the geometry
of the operands. What is met for the first time is worked out by :mod:`.quick_shapes` where it can.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from perfmodel.capture.layouts import is_channels_last
from perfmodel.capture.recording.quick_shapes import quick_recipes
from perfmodel.capture.recording.tracking import Geometries, Geometry
from perfmodel.graph.ir import AttrValue

_META = torch.device("meta")

#: Results that are kept; the next capture after that begins with an empty memory.
_CAPACITY = 50_000

#: Whether a single tensor comes back, and the geometry of each; None where a result has none.
_Results = tuple[bool, tuple[Geometry | None, ...]]


class ShapeMemory:
    """What is known of calls on meta tensors; any number of threads may ask.

    Attributes
    ----------
    geometries : Geometries
        By which calls are told apart.
    """

    def __init__(self) -> None:
        self.geometries = Geometries()
        self._results: dict[Any, _Results | None] = {}

    @property
    def is_full(self) -> bool:
        """Whether as much is known as may be."""
        return len(self._results) >= _CAPACITY

    def answer(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        read: Sequence[torch.Tensor],
        places: Sequence[Geometry],
        attrs: Mapping[str, AttrValue],
    ) -> tuple[Any, tuple[Geometry | None, ...] | None]:
        """Answer a functional operator call on meta tensors, from memory where possible.

        Parameters
        ----------
        func : torch._ops.OpOverload
            An operator that writes nothing.
        read, places : sequence
            The tensors among them, and the geometry of each.
        attrs : mapping
            The rest of them, hashable.

        Returns
        -------
        tuple
            Fresh meta tensors, and the geometry of each; None in place of the latter where they
            may be views of operands.
        """
        key = (func, *places, *attrs.items(), *[i for i, value in enumerate(args) if value is None])
        try:
            results = self._results[key]
        except KeyError:
            return self._first(key, func, args, kwargs, read)
        if results is None:
            return LAYOUT_RULES.get(func, func)(*args, **kwargs), None
        return _made(results)

    def _first(
        self,
        key: Any,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        read: Sequence[torch.Tensor],
    ) -> tuple[Any, tuple[Geometry | None, ...] | None]:
        recipes = quick_recipes(func, args, kwargs)
        if recipes is not None:
            single, found = recipes
            at = self.geometries.at
            results = self._results[key] = (single, tuple([r and at(*r) for r in found]))
            return _made(results)
        answer = LAYOUT_RULES.get(func, func)(*args, **kwargs)
        self._results[key] = self._of(answer, read)
        return answer, None

    def _of(self, answer: Any, read: Sequence[torch.Tensor]) -> _Results | None:
        """Return what may be remembered of an answer: fresh tensors alone."""
        single = isinstance(answer, torch.Tensor)
        items = (answer,) if single else answer
        if not isinstance(items, tuple) or not all(i is None or _is_plain(i) for i in items):
            return None
        known = {tensor.untyped_storage()._cdata for tensor in read}
        if any(item is not None and item.untyped_storage()._cdata in known for item in items):
            return None
        return single, tuple([None if i is None else self.geometries.of(i) for i in items])


_lock = threading.Lock()
_memories = [ShapeMemory()]


def shape_memory() -> ShapeMemory:
    """Return the memory that a capture works with, from its beginning to its end."""
    with _lock:
        if _memories[0].is_full:
            _memories[0] = ShapeMemory()
        return _memories[0]


def _made(results: _Results) -> tuple[Any, tuple[Geometry | None, ...]]:
    single, geometries = results
    made = [None if geometry is None else geometry.fresh() for geometry in geometries]
    return made[0] if single else tuple(made), geometries


def _is_plain(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.is_meta and not item.is_complex()


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
    _, heads, length, width = (max(extent, 1) for extent in shape)
    strides = (length * heads * width, width, heads * width, 1)
    return torch.empty_strided(shape, strides, dtype=dtype, device=_META)


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
