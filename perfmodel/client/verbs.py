"""Let a method look like the function that builds its call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


def bound_like(build: Callable[..., Any], method: F) -> F:
    """Give a method the name, the words and the parameters of what builds its call.

    Parameters
    ----------
    method : callable
        Takes the client first, then what ``build`` takes.

    Returns
    -------
    callable
        ``method``.
    """
    signature = inspect.signature(build)
    vars(method)["__signature__"] = signature.replace(
        parameters=(_SELF, *signature.parameters.values()),
        return_annotation=inspect.Signature.empty,
    )
    method.__name__ = build.__name__
    method.__qualname__ = build.__qualname__
    method.__doc__ = build.__doc__
    return method
