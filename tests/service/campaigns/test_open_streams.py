"""Streams of events ask the database as long as they are open: there are only so many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from service.campaigns.open_streams import EventStream, OpenStreams


async def _opened(streams: OpenStreams, caller: str, until: asyncio.Event) -> int:
    """Open a stream that ends with an event; return the status that its caller saw."""
    statuses: list[int] = []

    async def told() -> AsyncIterator[bytes]:
        yield b": begins\n\n"
        await until.wait()

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    stream = EventStream(told(), streams, caller)
    await stream({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
    return statuses[0]


async def _crowd(callers: list[str]) -> tuple[list[int], list[int]]:
    """Open streams of callers, one after the other, and again once all of them have ended."""
    streams, ending = OpenStreams(most=4, most_of_one=2), asyncio.Event()
    asked = []
    for caller in callers:
        asked.append(asyncio.create_task(_opened(streams, caller, ending)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    ending.set()
    first = [await one for one in asked]
    assert not streams.by_caller
    return first, [await _opened(streams, caller, ending) for caller in callers]


def test_a_key_has_its_share_and_all_together_theirs() -> None:
    callers = ["a", "a", "a", "b", "b", "c", "a"]
    first, again = asyncio.run(_crowd(callers))
    # Two of a, the third is too many of a key; two of b; then four are open.
    assert first == [200, 200, 429, 200, 200, 503, 429]
    assert again == [200] * len(callers)
