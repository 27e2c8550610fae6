"""Go on without an answer, as schedulers must."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perfmodel.client.errors import NoAnswerError

T = TypeVar("T")
D = TypeVar("D")

LOG = logging.getLogger(__name__)


def fail_open(ask: Callable[[], T], default: D) -> T | D:
    """Return an answer, or a default where none came: down, slow, refusing or garbage.

    How long that may take is the ``timeout_s`` of the client; its ``rest_s`` spares the callers
    that follow.

    Parameters
    ----------
    ask : callable
        ``lambda: client.predict(job, placement)``.

    Examples
    --------
    >>> def refused():
    ...     raise NoAnswerError("nobody there")
    >>> fail_open(refused, 1.0), fail_open(lambda: 2.0, 1.0)
    (1.0, 2.0)
    """
    try:
        return ask()
    except NoAnswerError as error:
        return _without(error, default)


async def fail_open_async(answer: Awaitable[T], default: D) -> T | D:
    """Return what is awaited, or a default where no answer came; as :func:`fail_open`.

    Parameters
    ----------
    answer : awaitable
        ``client.predict(job, placement)``.
    """
    try:
        return await answer
    except NoAnswerError as error:
        return _without(error, default)


def _without(error: NoAnswerError, default: D) -> D:
    LOG.warning("Going on without an answer: %s (request %s)", error, error.request_id or "-")
    return default
