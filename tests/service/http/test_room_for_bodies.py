from __future__ import annotations

import asyncio
from typing import Any

from service.http.bodies import SMALL_BYTES, RequestBodies

MOST = 8 * SMALL_BYTES
LARGE = 3 * SMALL_BYTES


class Held:
    """An application that answers when it is let."""

    def __init__(self) -> None:
        self.inside = 0
        self.let = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside += 1
        await self.let.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


def scope(size: int | None, caller: str = "", **headers: str) -> dict[str, Any]:
    stated = {} if size is None else {"content-length": str(size)}
    pairs = [(n.replace("_", "-").encode(), v.encode()) for n, v in {**stated, **headers}.items()]
    return {"type": "http", "method": "POST", "path": "/x", "headers": pairs, "caller": caller}


async def ask(room: RequestBodies, request: dict[str, Any], told: list[Any]) -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            told.append((message["status"], dict(message["headers"]).get(b"retry-after")))

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    await room(request, receive, send)


def test_large_bodies_wait_outside_and_small_ones_come_in() -> None:
    async def run() -> None:
        held = Held()
        room = RequestBodies(held, most_bytes=MOST, limit_bytes=MOST, limits_bytes={})
        told: list[Any] = []
        open_tasks = [
            asyncio.create_task(ask(room, scope(LARGE, caller), told)) for caller in ("a", "b")
        ]
        open_tasks += [asyncio.create_task(ask(room, scope(SMALL_BYTES), told)) for _ in range(50)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert held.inside == 52
        # Of the rest, key a would have more than half; a third key finds none at all.
        await ask(room, scope(2 * SMALL_BYTES, "a"), told)
        await ask(room, scope(LARGE, "c"), told)
        # No length stated, or packed: it is taken to be large.
        await ask(room, scope(None, "c", transfer_encoding="chunked"), told)
        await ask(room, scope(SMALL_BYTES, "c", content_encoding="gzip"), told)
        assert told == [(429, b"1"), (503, b"1"), (503, b"1"), (503, b"1")]
        held.let.set()
        await asyncio.gather(*open_tasks)
        # There is room again, and alone even for one that is larger than all of it.
        await ask(room, scope(MOST, "a"), told)
        assert told[-1] == (200, None)

    asyncio.run(run())
