"""A bundle on another device, with everything that its loss holds."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from perfmodel.zoo.bundle import ModelBundle


def bundle_on(bundle: ModelBundle, device: str) -> ModelBundle:
    """Move the module, the inputs and the targets of a bundle to a device.

    Models are built on the CPU, whose constructors all of them support, and moved then.

    Parameters
    ----------
    device : str
        In PyTorch's words: ``"cuda:0"``. The module itself is moved; the loss is copied.
    """
    return replace(
        bundle,
        module=bundle.module.to(device),
        args=_moved(bundle.args, device),
        kwargs=_moved(dict(bundle.kwargs), device),
        loss=_moved(bundle.loss, device),
    )


def _moved(value: Any, device: str) -> Any:
    if isinstance(value, (torch.Tensor, nn.Module)):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_moved(item, device) for item in value)
    if type(value).__module__.startswith("perfmodel.zoo.") and hasattr(value, "__dict__"):
        moved = copy.copy(value)
        for name, held in vars(value).items():
            # Losses are frozen: what they hold is put in past that.
            object.__setattr__(moved, name, _moved(held, device))
        return moved
    return value
