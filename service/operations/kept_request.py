"""A request as it is kept until somebody answers it, and how it is answered then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import ASGIApp, Message

#: Headers that say what the body is; no other matters to an answer that nobody waits for.
_KEPT = (b"content-type", b"content-encoding")


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptRequest:
    """A request to the service."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def of(cls, scope: Any, path: str, body: bytes) -> KeptRequest:
        """Keep what came in as an ASGI scope and a body."""
        return cls(
            method=scope["method"],
            path=path,
            query=scope["query_string"].decode("latin-1"),
            headers=tuple(
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in scope["headers"]
                if name in _KEPT
            ),
            body=body,
        )

    def to_bytes(self) -> bytes:
        """Write it down."""
        head = {
            "method": self.method, "path": self.path, "query": self.query, "headers": self.headers,
        }  # fmt: skip
        return orjson.dumps(head) + b"\n" + self.body

    @classmethod
    def from_bytes(cls, written: bytes) -> KeptRequest:
        """Read what :meth:`to_bytes` wrote."""
        head, _, body = written.partition(b"\n")
        fields = orjson.loads(head)
        return cls(
            method=fields["method"],
            path=fields["path"],
            query=fields["query"],
            headers=tuple((name, value) for name, value in fields["headers"]),
            body=body,
        )


async def replay(inner: ASGIApp, request: KeptRequest, **facts: Any) -> tuple[int, bytes]:
    """Answer a kept request.

    Parameters
    ----------
    inner : ASGIApp
        What stands behind access and limits: the request has passed them once.
    """
    answer = bytearray()
    status = 500
    bodies = [request.body]

    async def receive() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            answer.extend(message.get("body", b""))

    await inner(_scope(request, facts), receive, send)
    return status, bytes(answer)


def _scope(request: KeptRequest, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": "",
        "query_string": request.query.encode("latin-1"),
        "headers": [
            *((name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers),
            (b"content-length", str(len(request.body)).encode()),
        ],
        "client": None,
        "server": None,
        **facts,
    }
