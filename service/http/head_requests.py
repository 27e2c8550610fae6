"""HEAD wherever there is GET: the same answer without its body (RFC 9110, 9.3.2)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """ASGI middleware that asks the routes by GET for who asks by HEAD.

    What watches requests stands around it, what answers them within; load balancers and monitors
    ask for health so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and of the answer to HEAD its head alone."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}

        async def head(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Which route it was, and whose key, is told to those who watch.
                scope.update(asked, method="HEAD")
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self._app(asked, receive, head)
