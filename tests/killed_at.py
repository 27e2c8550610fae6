"""A process that is killed by itself, before any of the steps that it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


def kill_at(at: int, steps: tuple[tuple[Any, str], ...]) -> None:
    """End this process when it begins a step for the n-th time.

    Parameters
    ----------
    at : int
        From 0, over all of the steps together.
    steps : tuple of (owner, name)
        Functions that leave a trace; a moment before each is the one after what came before.
    """
    moments = iter(range(at))

    def moment() -> None:
        if next(moments, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in steps:
        setattr(owner, name, _after(moment, getattr(owner, name)))


def _after(moment: Callable[[], None], step: Callable[..., Any]) -> Callable[..., Any]:
    def after_moment(*args: Any, **kwargs: Any) -> Any:
        moment()
        return step(*args, **kwargs)

    return after_moment
