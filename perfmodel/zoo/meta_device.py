"""Construct modules on the meta device without spending time on their initial weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

_META = torch.device("meta")

#: In-place fills of a parameter. Their result is a number, which a meta tensor does not hold.
_IS_FILL = dict.fromkeys(
    (
        *(getattr(nn.init, name) for name in nn.init.__all__ if name.endswith("_")),
        *(
            getattr(torch.Tensor, name)
            for name in ("uniform_", "normal_", "erfinv_", "zero_", "fill_", "clamp_", "mul_")
        ),
    ),
    True,
)


class MetaDevice(TorchFunctionMode):
    """As ``torch.device("meta")``, but in-place fills of a meta tensor are left out.

    A torch-function mode is local to its thread, unlike a patch of ``torch.nn.init``.

    Examples
    --------
    >>> with MetaDevice():
    ...     layer = torch.nn.Linear(4, 2)
    >>> layer.weight.device.type, tuple(layer.weight.shape)
    ('meta', (2, 4))
    """

    def __init__(self) -> None:
        super().__init__()
        # Nearly all calls are questions about a tensor: one look tells that it is none of these.
        self._is_fill = {**dict.fromkeys(_device_constructors(), False), **_IS_FILL}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Leave out a fill of a meta tensor; make every other tensor on the meta device."""
        kwargs = kwargs or {}
        is_fill = self._is_fill.get(func)
        if is_fill:
            filled = args[0] if args else kwargs.get("tensor")
            if isinstance(filled, torch.Tensor) and filled.device.type == "meta":
                return filled
        elif is_fill is not None and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": _META}
        return func(*args, **kwargs)


@contextmanager
def fills_left_out() -> Iterator[None]:
    """Leave out fills of meta tensors before they ask a mode, in all threads of this process.

    For a process that does nothing but build models on the meta device: layers then do not work
    out either with which numbers to fill. Other tensors are filled as ever.
    """
    before = [(owner, name, getattr(owner, name)) for owner, name in _fillers()]
    for owner, name, fill in before:
        setattr(owner, name, _unless_on_meta(fill))
    try:
        yield
    finally:
        for owner, name, fill in before:
            setattr(owner, name, fill)


def _fillers() -> Iterator[tuple[Any, str]]:
    for name in nn.init.__all__:
        if name.endswith("_"):
            yield nn.init, name
    for layer in (nn.Linear, nn.modules.conv._ConvNd, nn.LayerNorm, nn.GroupNorm):
        yield layer, "reset_parameters"
    yield nn.modules.batchnorm._NormBase, "reset_parameters"


def _unless_on_meta(fill: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fill)
    def filled(*args: Any, **kwargs: Any) -> Any:
        target = args[0] if args else kwargs.get("tensor")
        tensor = target
        if isinstance(target, nn.Module):
            tensor = getattr(target, "weight", None)
            if tensor is None:
                tensor = getattr(target, "running_mean", None)
        if isinstance(tensor, torch.Tensor) and tensor.is_meta:
            return target if tensor is target else None
        return fill(*args, **kwargs)

    return filled
