"""Compress large answers for callers that ask for it."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

#: Smaller answers stay as they are: they fit into one packet anyhow.
LEAST_BYTES = 1024

#: Of zlib; from here on, columns of numbers hardly get smaller but take twice as long.
LEVEL = 4


class Compression:
    """ASGI middleware: gzip above :data:`LEAST_BYTES` where the caller accepts it.

    Others pass untouched: the general middleware holds back and looks at every answer, which costs
    more than all other layers together.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gzip = GZipMiddleware(app, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, through compression where it is asked for."""
        wanted = scope["type"] == "http" and any(
            name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"]
        )
        await (self._gzip if wanted else self._app)(scope, receive, send)
