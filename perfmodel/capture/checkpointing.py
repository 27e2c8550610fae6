"""Activation checkpointing: forget a block's activations and recompute them going backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from perfmodel.errors import InvalidInputError


def checkpoint_activations(module: nn.Module) -> None:
    """Checkpoint the natural blocks of a module.

    The module's own switch is used where it has one (timm's ``set_grad_checkpointing``,
    transformers' ``gradient_checkpointing_enable``); else each child of the finest
    ``ModuleList`` or ``Sequential`` that holds half of its parameters becomes one checkpointed
    block, but for children that overwrite what they read, which could not be recomputed.

    Parameters
    ----------
    module : torch.nn.Module
        Changed in place.

    Raises
    ------
    InvalidInputError
        The module has no such group of blocks.
    """
    if _use_own_switch(module):
        return
    blocks = _blocks(module)
    if not blocks:
        raise InvalidInputError(
            "Activation checkpointing needs a ModuleList or Sequential of blocks, and the module "
            "has none; wrap its blocks yourself with torch.utils.checkpoint.",
            pointer="/activation_checkpointing",
        )
    for block in blocks:
        block.forward = partial(_recomputed, block.forward)


def _use_own_switch(module: nn.Module) -> bool:
    enable = getattr(module, "gradient_checkpointing_enable", None)
    if callable(enable) and getattr(module, "supports_gradient_checkpointing", True):
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return True
    switch = getattr(module, "set_grad_checkpointing", None)
    if not callable(switch):
        return False
    try:
        switch(True)
    except (AssertionError, NotImplementedError, RuntimeError):
        # timm's models assert where they do not support it.
        return False
    return True


def _blocks(module: nn.Module) -> Sequence[nn.Module]:
    groups = [
        child
        for child in module.modules()
        if isinstance(child, (nn.ModuleList, nn.Sequential)) and len(child) > 1
    ]
    if not groups:
        return ()
    # Outer groups hold inner ones: the finest with most of the parameters is the one of blocks.
    weights = [_weight(group) for group in groups]
    most = min(_weight(module) / 2, max(weights))
    _, finest = min((w, -i) for i, w in enumerate(weights) if w >= most)
    return [block for block in groups[-finest] if _can_be_recomputed(block)]


def _weight(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _can_be_recomputed(block: nn.Module) -> bool:
    callable_ = type(block).forward is not nn.Module.forward
    return callable_ and not getattr(block, "inplace", False)


def _recomputed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    # Dropout masks may differ on recomputation; the work is the same, and saving the random
    # state would add operators that belong to no model.
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)
