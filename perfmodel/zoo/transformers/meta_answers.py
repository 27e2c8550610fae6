"""Answer, for tensors without values, the questions that transformers asks about values.

A few places in transformers branch on numbers: is this mask all ones, are several sequences
packed into one row, is there padding? A meta tensor cannot tell. The inputs made here are full,
unpacked, unpadded sequences, so the answers are known, and with them capture takes the same
branches as a real run. Real tensors are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import torch

_DONE: list[str] = []


def answer_for_meta_tensors() -> None:
    """Wrap those places, once; a place that this transformers version lacks is passed over."""
    if _DONE:
        return
    masking = _module("transformers.masking_utils")
    _wrap(masking, "find_packed_sequence_indices", lambda position_ids: None)
    _wrap(masking, "fast_all", lambda tensor: True)
    models = _module("transformers.modeling_utils")
    _wrap(
        getattr(models, "PreTrainedModel", None),
        "warn_if_padding_and_no_attention_mask",
        lambda self, input_ids, attention_mask: None,
    )
    experts = _module("transformers.integrations.moe")
    # The shape rule of aten::_grouped_mm knows bf16 only, its kernels know more: other types
    # take the operator that transformers itself falls back to.
    _wrap(experts, "_can_use_grouped_mm", lambda input, weight, offs: False, spare=torch.bfloat16)
    _DONE.append("transformers")


def _wrap(
    owner: Any, name: str, answer: Callable[..., Any], *, spare: torch.dtype | None = None
) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        if tensors and tensors[0].is_meta and tensors[0].dtype is not spare:
            return answer(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
