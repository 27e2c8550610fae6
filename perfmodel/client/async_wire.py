"""Exchanges over HTTP from coroutines, through httpx."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from perfmodel.client.errors import TimedOutError, UnreachableError, UnreadableAnswerError
from perfmodel.client.messages import Reply, Request
from perfmodel.client.reading import MAX_BYTES
from perfmodel.errors import MissingExtraError

if TYPE_CHECKING:
    import httpx


class AsyncWire:
    """Connections that are kept open and used again by the coroutines of one event loop.

    Parameters
    ----------
    tls : ssl.SSLContext or None
        None: the certificates that httpx trusts.
    transport : httpx.AsyncBaseTransport or None
        In the place of sockets, such as ``httpx.ASGITransport``.

    Raises
    ------
    MissingExtraError
        httpx is not installed.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError("The asynchronous client", extra="client") from None
        self._httpx = httpx
        # As the blocking wire: no proxies of the environment, no redirections.
        self._client = httpx.AsyncClient(
            verify=True if tls is None else tls, transport=transport, trust_env=False
        )

    async def send(self, request: Request, timeout_s: float) -> Reply:
        """Exchange a request for its whole reply; raises as the blocking wire."""
        httpx = self._httpx
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(request, timeout_s)
        except (TimeoutError, httpx.TimeoutException):
            raise TimedOutError(
                f"No whole answer from {request.url} within {timeout_s:.2g} s."
            ) from None
        except (httpx.DecodingError, httpx.LocalProtocolError) as error:
            raise UnreadableAnswerError(f"{request.url} speaks no HTTP: {error!r}.") from error
        except httpx.TransportError as error:
            raise UnreachableError(f"{request.url} cannot be asked: {error!r}.") from error

    async def close(self) -> None:
        """Close what is open."""
        await self._client.aclose()

    async def _exchange(self, request: Request, timeout_s: float) -> Reply:
        chunks, size = [], 0
        async with self._client.stream(
            request.method,
            request.url,
            headers=dict(request.headers),
            content=request.body,
            timeout=timeout_s,
        ) as response:
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > MAX_BYTES:
                    raise UnreadableAnswerError(f"The answer is longer than {MAX_BYTES} bytes.")
                chunks.append(chunk)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(status=response.status_code, headers=headers, content=b"".join(chunks))
