"""Answer ``POST /v1/predict`` from memory without the layers of a route.

Most questions of a scheduler are about graphs that are known, and their answers are worked out in
less time than a route takes to be found, to resolve what it depends on and to build a response.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perfmodel.errors import PerfModelError
from perfmodel.placement.estimate import Estimate
from service.answering.json_body import read_json
from service.answering.terms import HEADER as DEADLINE
from service.answers import json_bytes
from service.desk import Desk

PATH = "/v1/predict"

_JSON = b"application/json"


class KnownAnswers:
    """ASGI middleware: sends the answer to a question if it is in memory; all else passes on.

    Stands right before the routes, behind access and limits. What is wrong with a question is
    left to its route to say.
    """

    def __init__(self, app: ASGIApp, *, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] != PATH or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        first = await receive()
        answer = self._known(first)
        if answer is None:
            await self._app(scope, _again(first, receive), send)
        else:
            scope["route"] = _ROUTE
            await _send(json_bytes(answer), send)

    def _known(self, message: Message) -> Estimate | None:
        if message["type"] != "http.request" or message.get("more_body"):
            return None
        try:
            answer = self._desk.models.serving.from_memory(read_json(message["body"]))
        except PerfModelError:
            return None
        if answer is not None:
            self._desk.metrics.answer(PATH, answer.basis)
        return answer


class _Matched:
    """What stands in the place of a route where requests are counted."""

    path = PATH


_ROUTE = _Matched()


def _is_plain(scope: Scope) -> bool:
    """Tell whether a request asks for nothing but the answer to a JSON body of stated length."""
    if scope["method"] != "POST":
        return False
    stated = False
    for name, value in scope["headers"]:
        if name == DEADLINE or (name == b"content-type" and value != _JSON):
            return False
        stated = stated or name == b"content-length"
    return stated


def _again(first: Message, receive: Receive) -> Receive:
    """Return a channel that begins with a message that was taken from it."""
    waiting = [first]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


async def _send(body: bytes, send: Send) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", _JSON)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
