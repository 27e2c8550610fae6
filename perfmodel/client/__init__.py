"""Ask a running service from Python: typed, blocking or from coroutines.

>>> from perfmodel.client import Client
>>> service = Client("http://127.0.0.1:8000", timeout_s=2.0)  # asks nothing yet
>>> service.close()

The blocking client needs nothing but the standard library, the asynchronous one httpx
(``pip install 'perfmodel[client]'``). Neither loads torch, numpy or pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfmodel.client.client import Client
from perfmodel.client.errors import (
    NoAnswerError,
    NotAllowedError,
    NotFoundError,
    Problem,
    ProblemError,
    ProblemItem,
    RefusedError,
    TimedOutError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
    fail_open,
    fail_open_async,
)
from perfmodel.client.protocol.messages import Call, Page

if TYPE_CHECKING:
    from perfmodel.client.async_client import AsyncClient

__all__ = [
    "AsyncClient",
    "Call",
    "Client",
    "NoAnswerError",
    "NotAllowedError",
    "NotFoundError",
    "Page",
    "Problem",
    "ProblemError",
    "ProblemItem",
    "RefusedError",
    "TimedOutError",
    "UnavailableError",
    "UnreachableError",
    "UnreadableAnswerError",
    "fail_open",
    "fail_open_async",
]


def __getattr__(name: str) -> Any:
    # On first use: asyncio takes most of the time of importing this package.
    if name != "AsyncClient":
        raise AttributeError(f"module 'perfmodel.client' has no attribute {name!r}")
    from perfmodel.client.async_client import AsyncClient

    return AsyncClient
