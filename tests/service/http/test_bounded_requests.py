"""Connections that send endless heads, or nothing: closed, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState
from waiting import PATIENCE_S, until

pytest.importorskip("httptools")

from service.http.bounded_requests import (
    LEAST_BYTES_PER_S,
    MOST_UNREAD_BYTES,
    BoundedRequests,
)
from service.http.connections import parser

BEGUN = b"POST / HTTP/1.1\r\nHost: here\r\n"


class Hurried(BoundedRequests):
    patience_s = 0.2


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the length of the body."""
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    text = str(length).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


#: More than the system keeps for a connection.
LARGE = 64 * 2**20


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with very much, whatever is asked."""
    headers = [(b"content-length", str(LARGE).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


def serving(http: Any, app: Any = echo) -> Iterator[int]:
    config = uvicorn.Config(app, port=0, http=http, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    yield from serving(BoundedRequests)


@pytest.fixture(scope="module")
def hurried() -> Iterator[int]:
    yield from serving(Hurried)


@pytest.fixture(scope="module")
def generous() -> Iterator[int]:
    yield from serving(Hurried, large)


def fetched(port: int, pause_s: float, at_once: int) -> int:
    """Fetch an answer with pauses, and return how much of it came."""
    found = 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(BEGUN + b"\r\n")
        try:
            while found < LARGE:
                time.sleep(pause_s)
                part = connection.recv(at_once, socket.MSG_WAITALL)
                if not part:
                    break
                found += len(part)
        except ConnectionResetError:
            pass
    return found


def test_an_answer_that_nobody_fetches_is_not_kept(generous: int) -> None:
    assert fetched(generous, 5 * Hurried.patience_s, LARGE) < LARGE


def test_an_answer_that_is_fetched_slowly_comes_whole(generous: int) -> None:
    assert fetched(generous, Hurried.patience_s / 4, 2**21) >= LARGE


class Gone(asyncio.Transport):
    """A transport whose caller has gone, as ``uvloop`` has it."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: Any) -> None:
        raise RuntimeError("the handler is closed")

    def close(self) -> None:
        pass


def test_an_answer_to_who_has_just_gone_is_no_defect() -> None:
    failed: list[RuntimeError] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await echo(scope, receive, send)
        except RuntimeError as error:
            failed.append(error)

    async def answering() -> None:
        config = uvicorn.Config(noting, http=BoundedRequests, lifespan="off", log_level="critical")
        config.load()
        asked = BoundedRequests(config=config, server_state=ServerState(), app_state={})
        asked.connection_made(Gone())
        asked.data_received(BEGUN + b"Content-Length: 0\r\n\r\n")
        assert asked.cycle is not None
        async with asyncio.timeout(PATIENCE_S):
            while asked.tasks or not asked.cycle.response_started:
                await asyncio.sleep(0)
        asked.connection_lost(None)

    asyncio.run(answering())
    assert not failed


def talk(port: int, *pieces: bytes) -> bytes:
    """Send some pieces, and return all that comes back until the connection is closed."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            while part := connection.recv(65536):
                said += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return said


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param([BEGUN + b"X: ", *[b"a" * 2**16] * 64], id="a header"),
        pytest.param([BEGUN, *[b"X: a\r\n" * 10_000] * 64], id="headers"),
        pytest.param([b"GET /", *[b"a" * 2**14] * 64], id="a path"),
        pytest.param(
            [BEGUN + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", *[b"a" * 2**16] * 64],
            id="a trailer",
        ),
        pytest.param(
            [BEGUN + b"Transfer-Encoding: chunked\r\n\r\n2;", *[b"a" * 2**16] * 64],
            id="what is said of a chunk",
        ),
    ],
)
def test_an_endless_head_ends_the_connection(port: int, endless: list[bytes]) -> None:
    assert b" 200 " not in talk(port, *endless)


def test_a_large_body_is_no_head(port: int) -> None:
    size = 40 * MOST_UNREAD_BYTES
    head = BEGUN + f"Connection: close\r\nContent-Length: {size}\r\n\r\n".encode()
    assert talk(port, head, b"a" * size).endswith(str(size).encode())


def test_requests_of_one_connection_are_counted_apart(port: int) -> None:
    filler = b"X: " + b"a" * (MOST_UNREAD_BYTES // 2) + b"\r\n"
    whole = BEGUN + filler + b"Content-Length: 2\r\n\r\n{}"
    last = BEGUN + filler + b"Connection: close\r\nContent-Length: 3\r\n\r\n{ }"
    assert talk(port, whole, whole, whole, last).count(b" 200 ") == 4


@pytest.mark.parametrize(
    "begun",
    [b"", b"P", BEGUN, BEGUN + b"Content-Length: 100\r\n\r\n{"],
    ids=["nothing", "a letter", "a head", "a body"],
)
def test_a_request_that_never_becomes_whole_ends_the_connection(hurried: int, begun: bytes) -> None:
    # recv() returns once the server closes; a server that waits would let it time out.
    assert talk(hurried, begun) == b""


def test_a_body_that_comes_in_slowly_is_read_to_its_end(hurried: int) -> None:
    # Three pieces, each after more than a hurried server waits for a body of which nothing came.
    piece = b"a" * (2 * LEAST_BYTES_PER_S)
    head = BEGUN + f"Connection: close\r\nContent-Length: {3 * len(piece)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", hurried), timeout=PATIENCE_S) as connection:
        connection.sendall(head + piece)
        for _ in range(2):
            time.sleep(2 * Hurried.patience_s)
            connection.sendall(piece)
        said = b""
        while part := connection.recv(65536):
            said += part
    assert said.endswith(str(3 * len(piece)).encode())


def test_so_does_one_that_follows_an_answer(hurried: int) -> None:
    whole = BEGUN + b"Content-Length: 2\r\n\r\n{}"
    assert talk(hurried, whole + b"P").count(b" 200 ") == 1


def test_the_service_reads_so() -> None:
    assert parser() is BoundedRequests
