"""Construct modules on the meta device without spending time on their initial weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

_META = torch.device("meta")

#: In-place fills of a parameter. Their result is a number, which a meta tensor does not hold.
_FILLS = frozenset(
    {
        *(getattr(torch.nn.init, name) for name in torch.nn.init.__all__ if name.endswith("_")),
        *(
            getattr(torch.Tensor, name)
            for name in ("uniform_", "normal_", "erfinv_", "zero_", "fill_", "clamp_", "mul_")
        ),
    }
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
        self._makes: Collection[Callable[..., Any]] = _device_constructors()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Leave out a fill of a meta tensor; make every other tensor on the meta device."""
        if func in _FILLS:
            filled = args[0] if args else (kwargs or {}).get("tensor")
            if isinstance(filled, torch.Tensor) and filled.device.type == "meta":
                return filled
        kwargs = kwargs or {}
        if func in self._makes and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": _META}
        return func(*args, **kwargs)
