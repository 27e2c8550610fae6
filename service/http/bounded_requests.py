"""What a connection may send, and how long it may take for its request and for the answer."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes without a head, or a piece of a body, becoming whole.
MOST_UNREAD_BYTES = 128 * 1024
#: At which a body that takes longer must come in, and an answer be fetched: a slow line brings far
#: more.
LEAST_BYTES_PER_S = 16 * 1024

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _WhileOpen:
    """A transport that drops what is written once it closes.

    Its caller may have gone before the protocol is told; that of ``uvloop`` then raises, which is
    no defect of whoever answers.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedRequests(HttpToolsProtocol):
    """HTTP with the compiled parser, which by itself keeps whatever is sent, for ever.

    Connections are closed that send endless heads (431 where nothing is being answered), endless
    trailers, or no whole request in time: silent ones too. A body has longer the more of it came.
    So are those that do not fetch their answer, which is kept until they do.
    """

    #: From when the connection or the first byte of a further request is there, and between two
    #: looks at how much of an answer was fetched, seconds.
    patience_s = 60.0

    _unread = 0
    _begun_s = 0.0
    _received = 0
    _is_whole = False
    _overdue: asyncio.TimerHandle | None = None
    _unsent = 0
    _unfetched: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(_WhileOpen(transport))  # type: ignore[arg-type]
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._end_wait()
        self._end_wait_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what does not become a part of a request."""
        self._unread += len(data)
        self._received += len(data)
        super().data_received(data)
        if self._is_whole:
            return
        if self._unread > MOST_UNREAD_BYTES:
            self._refuse()
        elif self._overdue is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_whole = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Hand the head over."""
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body over."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._is_whole, self._unread = True, 0
        self._end_wait()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for whoever fetches the answer."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Go on: most of what was written is fetched."""
        self._end_wait_for_reader()
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        self._end_wait_for_reader()
        self._unsent = self.transport.get_write_buffer_size()
        self._unfetched = self.loop.call_later(self.patience_s, self._look_at_reader)

    def _look_at_reader(self) -> None:
        """Close the connection, unless its answer is fetched well enough."""
        fetched = self._unsent - self.transport.get_write_buffer_size()
        if fetched < self.patience_s * LEAST_BYTES_PER_S:
            # Closing alone would wait for all of it to be fetched.
            self.transport.abort()
        else:
            self._wait_for_reader()

    def _end_wait_for_reader(self) -> None:
        if self._unfetched is not None:
            self._unfetched.cancel()
            self._unfetched = None

    def _wait(self) -> None:
        self._begun_s, self._received = self.loop.time(), 0
        self._overdue = self.loop.call_later(self.patience_s, self._look)

    def _look(self) -> None:
        """Close the connection, unless its body comes in well enough."""
        allowed_s = self.patience_s + self._received / LEAST_BYTES_PER_S
        left_s = self._begun_s + allowed_s - self.loop.time()
        if left_s <= 0:
            self.transport.close()
        else:
            self._overdue = self.loop.call_later(left_s, self._look)

    def _end_wait(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _refuse(self) -> None:
        answers = self.cycle is not None and not self.cycle.response_complete
        if not answers and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
        self.transport.close()
