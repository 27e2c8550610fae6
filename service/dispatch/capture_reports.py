"""Say for whom and on what budget a request captures, and tell in its answer what that took."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.jobs.capture_terms import TERMS, CaptureBudget, CaptureTerms, CaptureUse
from service.http.bodies import header_of
from service.http.errors import problem_of, problem_response

#: Names what captures took, as a list of structured fields (RFC 8941).
HEADER = b"perfmodel-captured"

#: States what each capture of a request may take: ``time_s=5, nodes=20000, memory_bytes=1000000``.
BUDGET = b"perfmodel-capture-budget"

#: Captures that are told one by one; of more, the last ones.
_MOST_TOLD = 16


class CaptureReports:
    """ASGI middleware: the terms of a request on its way in, what was captured on its way out.

    Stands behind access, which says whose request it is.

    Parameters
    ----------
    most : CaptureBudget
        What a capture may take; a request may state less.
    """

    def __init__(self, app: ASGIApp, *, most: CaptureBudget) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        stated = header_of(scope, BUDGET)
        try:
            budget = None if stated is None else self._most.narrowed(stated.decode("latin-1"))
        except InvalidInputError as error:
            await problem_response(problem_of(error))(scope, receive, send)
            return
        terms = CaptureTerms(caller=scope.get("caller") or "", budget=budget)
        TERMS.set(terms)

        async def telling(message: Message) -> None:
            if terms.uses and message["type"] == "http.response.start":
                told = (HEADER, told_uses(terms.uses).encode())
                message["headers"] = [*message["headers"], told]
            await send(message)

        await self._app(scope, receive, telling)


def told_uses(uses: Sequence[CaptureUse]) -> str:
    """Write down what captures took, the last ones if there were many.

    Examples
    --------
    >>> told_uses([CaptureUse(time_s=0.4182, memory_bytes=1_048_576, nodes=612)])
    '1;time_s=0.418;memory_bytes=1048576;nodes=612'
    """
    first = max(0, len(uses) - _MOST_TOLD)
    return ", ".join(
        f"{number};time_s={use.time_s:.3f};memory_bytes={use.memory_bytes};nodes={use.nodes}"
        for number, use in enumerate(uses[first:], first + 1)
    )
