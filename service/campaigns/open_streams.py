"""How many streams of events are open: each asks the database once a second, for up to a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.http.errors import OverloadedError, TooManyWaitingError, problem_of, problem_response


class OpenStreams:
    """Counts streams by caller.

    Parameters
    ----------
    most, most_of_one : int
        Of all callers together, and of one.
    """

    def __init__(self, most: int = 64, most_of_one: int = 16) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self.by_caller: Counter[str] = Counter()

    def refusal(self, caller: str) -> OverloadedError | TooManyWaitingError | None:
        """Return why a caller may open no further one, or None."""
        if self.by_caller[caller] >= self.most_of_one:
            return TooManyWaitingError(
                f"This key has {self.most_of_one} streams of events open already. Close one, or "
                "ask once in a while instead."
            )
        if self.by_caller.total() >= self.most:
            return OverloadedError(f"{self.most} streams of events are open already.")
        return None


class EventStream(StreamingResponse):
    """A stream of events that counts as open until it ends, however it does."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[bytes], streams: OpenStreams, caller: str, **more: Any
    ) -> None:
        super().__init__(events, **more)
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, or why there are none."""
        refused = self._streams.refusal(self._caller)
        if refused is not None:
            await problem_response(problem_of(refused))(scope, receive, send)
            return
        open_ones = self._streams.by_caller
        open_ones[self._caller] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            open_ones[self._caller] -= 1
            if not open_ones[self._caller]:
                del open_ones[self._caller]
