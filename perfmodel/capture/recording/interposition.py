"""Interposed operators: fused attention, fused recurrent layers and autocast on shapes.

On meta tensors PyTorch takes attention and recurrent layers apart into the reference
mathematics, which no real device runs, and it has no autocast. During a capture dispatch keys
that no tensor carries are switched on for the calling thread; the kernels registered to them
run *above* autograd, so that backward formulas and casts are recorded as on a real device.
Outside a capture the keys are off and nothing changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch

from perfmodel.capture.recording.autocast import AutocastPolicy, interposed_casts

#: Keys of backends that have no kernels of their own in PyTorch; the casts come first.
_CAST_KEY = "AutocastHPU"
_FUSED_KEY = "AutocastIPU"

_registering = threading.Lock()

_policy: ContextVar[AutocastPolicy | None] = ContextVar("perfmodel_autocast", default=None)


@contextmanager
def interposed(policy: AutocastPolicy | None = None) -> Iterator[None]:
    """Switch the interposed operators on for the calling thread.

    Parameters
    ----------
    policy : AutocastPolicy or None
        Casts of an ``amp_*`` precision; None for none.
    """
    with _registering:
        _register()
    token = _policy.set(policy)
    try:
        with _switched_on(_FUSED_KEY):
            if policy is None:
                yield
            else:
                with _switched_on(_CAST_KEY):
                    yield
    finally:
        _policy.reset(token)


@contextmanager
def casting(policy: AutocastPolicy) -> Iterator[None]:
    """Cast as a policy says for a part of an interposed step."""
    token = _policy.set(policy)
    try:
        with _switched_on(_CAST_KEY):
            yield
    finally:
        _policy.reset(token)


@contextmanager
def _switched_on(key: str) -> Iterator[None]:
    tls: Any = torch._C
    was_included = tls._dispatch_tls_is_dispatch_key_included(key)
    was_excluded = tls._dispatch_tls_is_dispatch_key_excluded(key)
    tls._dispatch_tls_set_dispatch_key_included(key, True)
    tls._dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        yield
    finally:
        tls._dispatch_tls_set_dispatch_key_included(key, was_included)
        tls._dispatch_tls_set_dispatch_key_excluded(key, was_excluded)


@cache
def _register() -> list[Any]:
    library: Any = torch.library  # its methods carry no types
    everything = library.Library("_", "IMPL")
    for key in (_CAST_KEY, _FUSED_KEY):
        everything.fallback(library.fallthrough_kernel, key)
    aten = library.Library("aten", "IMPL")
    for name, overload, cast in interposed_casts():
        aten.impl(name, _casting(overload, cast), _CAST_KEY)
    aten.impl("scaled_dot_product_attention", _attention, _FUSED_KEY)
    for name, mode in (("lstm", 2), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 0)):
        aten.impl(f"{name}.input", _recurrent(mode), _FUSED_KEY)
    aten.impl("lstm_cell", _lstm_cell, _FUSED_KEY)
    return [everything, aten]


def _casting(overload: Any, cast: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    below = _keys(_CAST_KEY)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        policy = _policy.get()
        with torch._C._ExcludeDispatchKeyGuard(below):
            if policy is not None and policy.is_active:
                args, kwargs = cast(policy, args, kwargs)
            return overload(*args, **kwargs)

    return kernel


def _keys(name: str) -> torch._C.DispatchKeySet:
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Keep attention one operator, as every device with a fused kernel does."""
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
    result: torch.Tensor = fused(
        query, key, value, attn_mask, dropout_p, is_causal, False, scale=scale
    )[0]
    return result


def _recurrent(mode: int) -> Callable[..., Any]:
    is_lstm = mode == 2

    def kernel(
        inputs: torch.Tensor,
        hx: Any,
        params: list[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        policy = _policy.get()
        if policy is not None and policy.is_active:
            inputs, hx, params = policy.lower(inputs), policy.lower(hx), policy.lower(params)
        hidden, cell = (hx[0], hx[1]) if is_lstm else (hx, None)
        per_layer = len(params) // (num_layers * (2 if bidirectional else 1))
        projects = is_lstm and per_layer in (3, 5)
        size = params[1].shape[0] // (4 if is_lstm else 3 if mode == 3 else 1)
        out, last, last_cell, *_ = torch.ops.aten._cudnn_rnn.default(
            inputs, params, per_layer, None, hidden, cell, mode, size,
            hidden.shape[-1] if projects else 0, num_layers, batch_first, dropout, train,
            bidirectional, [], None,
        )  # fmt: skip
        return (out, last, last_cell) if is_lstm else (out, last)

    return kernel


def _lstm_cell(
    inputs: torch.Tensor,
    hx: list[torch.Tensor],
    input_weight: torch.Tensor,
    hidden_weight: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run two products and one kernel for all gates, as accelerators do."""
    hidden, cell, _ = torch.ops.aten._thnn_fused_lstm_cell.default(
        torch.matmul(inputs, input_weight.t()),
        torch.matmul(hx[0], hidden_weight.t()),
        hx[1],
        input_bias,
        hidden_bias,
    )
    return hidden, cell
