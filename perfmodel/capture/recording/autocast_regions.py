"""Autocast that a program switches on for a part of itself: ``with torch.autocast("cuda")``.

PyTorch knows no autocast of meta tensors, and switches that of a device off which is not there.
During a capture such a region casts as a stated ``amp_*`` precision does.

Left out: regions that switch autocast off, regions whose object was made before the first capture
of a process (as by a decorator), and what a checkpoint computes again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch

from perfmodel.capture.recording.autocast import AutocastPolicy
from perfmodel.capture.recording.interposition import casting

_NARROW = (torch.float16, torch.bfloat16)

_capturing: ContextVar[bool] = ContextVar("perfmodel_autocast_regions", default=False)


@contextmanager
def autocast_regions() -> Iterator[None]:
    """Let regions of autocast cast by shape, in this thread; elsewhere they are as ever."""
    _install()
    token = _capturing.set(True)
    try:
        yield
    finally:
        _capturing.reset(token)


@cache
def _install() -> None:
    autocast: Any = torch.amp.autocast_mode.autocast
    plain_init, plain_enter, plain_exit = autocast.__init__, autocast.__enter__, autocast.__exit__

    def init(
        self: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not _capturing.get():
            plain_init(self, device_type, dtype, enabled, cache_enabled)
            return
        # PyTorch's own casts shall do nothing, wherever the region says that it runs.
        plain_init(self, "cpu", torch.bfloat16, False, cache_enabled)
        usual = torch.bfloat16 if device_type == "cpu" else torch.float16
        wanted = dtype or usual
        self._narrow = wanted if enabled and wanted in _NARROW else None

    def enter(self: Any) -> Any:
        narrow = getattr(self, "_narrow", None)
        if narrow is not None and _capturing.get():
            self._region = ExitStack()
            self._region.enter_context(casting(AutocastPolicy(narrow)))
        return plain_enter(self)

    def leave(self: Any, *failure: Any) -> Any:
        if getattr(self, "_region", None) is not None:
            self._region.close()
            self._region = None
        return plain_exit(self, *failure)

    autocast.__init__, autocast.__enter__, autocast.__exit__ = init, enter, leave
