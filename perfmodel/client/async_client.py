"""The client of coroutines, through httpx."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self, TypeVar

from perfmodel.client.client import Awaiting
from perfmodel.client.errors import (
    NoAnswerError,
    TimedOutError,
    UnreachableError,
    UnreadableAnswerError,
)
from perfmodel.client.protocol.encoding import MAX_BYTES
from perfmodel.client.protocol.messages import Call, Page, Reply, Request, Send, Task, Wait
from perfmodel.errors import MissingExtraError, first_line

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class AsyncClient(Awaiting["httpx.AsyncBaseTransport"]):
    """A service, asked over HTTP from coroutines; as :class:`~perfmodel.client.Client`, awaited.

    >>> async with AsyncClient("http://127.0.0.1:8000") as service:  # doctest: +SKIP
    ...     found = await service.predict(
    ...         {"model": "timm/resnet50", "mode": "training", "batch_size": 64}, "8xT4")

    Lists are iterated with ``async for``. Needs the extra ``client`` (httpx).

    Parameters
    ----------
    url, api_key, timeout_s, retries, fallback, rest_s, compress_above_bytes, tls
        As of :class:`~perfmodel.client.Client`.
    transport : httpx.AsyncBaseTransport or None
        In the place of sockets, such as ``httpx.ASGITransport``.

    Raises
    ------
    InvalidInputError
        A URL that is none.
    MissingExtraError
        httpx is not installed.
    """

    def _connect(
        self, tls: ssl.SSLContext | None, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self._wire = _Wire(tls, transport)

    async def ask(self, call: Call[T]) -> T:
        """Make a call of your own, for a route that has no method here.

        Raises
        ------
        NoAnswerError
            No answer came that can be used.
        """
        return await self._answer(call)

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _items(self, call: Call[Page[T]] | None) -> AsyncIterator[T]:
        while call is not None:
            page = await self.ask(call)
            for item in page.items:
                yield item
            call = call.after(page)

    async def _answer(self, asked: Call[T] | Task[T]) -> T:
        flow = self._session.flow(asked)
        came: Reply | NoAnswerError | None = None
        while True:
            try:
                step = flow.throw(came) if isinstance(came, NoAnswerError) else flow.send(came)
            except StopIteration as end:
                answer: T = end.value
                return answer
            try:
                came = await self._do(step)
            except NoAnswerError as error:
                came = error

    async def _do(self, step: Send | Wait) -> Reply | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        return await self._wire.send(step.request, step.timeout_s)


class _Wire:
    """Connections that are kept open and used again by the coroutines of one event loop.

    Where there is no ``tls``, it is the certificates that httpx trusts.
    """

    def __init__(
        self, tls: ssl.SSLContext | None, transport: httpx.AsyncBaseTransport | None
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
            raise UnreachableError(
                f"{request.url} cannot be asked: {first_line(error)}."
            ) from error

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
