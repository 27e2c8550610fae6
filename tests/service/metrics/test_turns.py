"""Health passes a crowd; nobody of the crowd is lost, and its order is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send

from service.http.draining import Draining
from service.metrics.registry import Metrics
from service.metrics.request_monitor import RequestMonitor

MOST = 4


class Noting:
    """Notes who was answered."""

    def __init__(self) -> None:
        self.answered: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.answered.append(scope["name"])


def monitor(app: Noting, *, most: int) -> RequestMonitor:
    return RequestMonitor(app, metrics=Metrics(), draining=Draining(0.0), most=most)


async def _ask(app: RequestMonitor, name: str, path: str = "/v1/predict") -> None:
    scope: dict[str, Any] = {"type": "http", "path": path, "headers": [], "name": name}
    await app(scope, None, None)  # type: ignore[arg-type]


def test_health_is_answered_before_a_crowd() -> None:
    noting = Noting()
    app = monitor(noting, most=MOST)

    async def crowd() -> None:
        others = [asyncio.create_task(_ask(app, f"{n}")) for n in range(100)]
        await asyncio.sleep(0)  # all of them have come
        await asyncio.create_task(_ask(app, "health", "/v2/health/live"))
        # Its own turn and the one before: everything else waits in line.
        assert noting.answered.index("health") <= 2 * MOST
        await asyncio.gather(*others)

    asyncio.run(crowd())
    assert [name for name in noting.answered if name != "health"] == [f"{n}" for n in range(100)]


def test_who_leaves_the_line_keeps_nobody_from_it() -> None:
    noting = Noting()
    app = monitor(noting, most=MOST)

    async def some_leave() -> None:
        others = [asyncio.create_task(_ask(app, f"{n}")) for n in range(20)]
        await asyncio.sleep(0)
        for one in others[MOST:12]:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.wait_for(_ask(app, "later"), 10)

    asyncio.run(some_leave())
    assert noting.answered == ["0", "1", "2", "3", *(f"{n}" for n in range(12, 20)), "later"]


def test_one_after_the_other_nobody_waits() -> None:
    noting = Noting()
    app = monitor(noting, most=1)

    async def one_after_the_other() -> None:
        for n in range(5):
            await asyncio.sleep(0)
            # Begins and ends without giving way to the loop once.
            try:
                _ask(app, f"{n}").send(None)
            except StopIteration:
                continue
            raise AssertionError("it had to wait")

    asyncio.run(one_after_the_other())
    assert noting.answered == ["0", "1", "2", "3", "4"]
