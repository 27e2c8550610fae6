"""A small real server that does what it is told, one reply after the other."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from waiting import PATIENCE_S

READY = {"status": "ready", "detail": []}

#: What is done with one request.
Act = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Script:
    """What the server does next, and what it was sent."""

    acts: list[Act]
    requests: list[BaseHTTPRequestHandler] = field(default_factory=list)
    url: str = ""

    def times(self) -> int:
        return len(self.requests)


def say(status: int = 200, content: Any = READY, headers: dict[str, str] | None = None) -> Act:
    """Answer with JSON, or with bytes as they are."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return act


def drop(handler: BaseHTTPRequestHandler) -> None:
    """Hang up without a word."""
    handler.close_connection = True


def drop_halfway(handler: BaseHTTPRequestHandler) -> None:
    """Promise more than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"status"')
    handler.close_connection = True


def drip(handler: BaseHTTPRequestHandler) -> None:
    """Send a byte at a time, each well within any timeout of a socket, until nobody listens."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def stay_silent(handler: BaseHTTPRequestHandler) -> None:
    """Say nothing, until the client hangs up."""
    handler.connection.settimeout(PATIENCE_S)
    handler.close_connection = True
    handler.rfile.read(1)


def speak_no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-nobody\r\n")
    handler.close_connection = True


@contextmanager
def misbehaving(acts: Sequence[Act], tls: ssl.SSLContext | None = None) -> Iterator[Script]:
    """Serve a script on a socket; after its last act it is ready."""
    script = Script(acts=list(acts))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.requests.append(self)
            act = script.acts.pop(0) if script.acts else say()
            try:
                act(self)
            except OSError:  # the client hung up first
                self.close_connection = True

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    script.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=PATIENCE_S)
