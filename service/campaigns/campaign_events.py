"""What happens to a campaign, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from fastapi.sse import format_sse_event

from perfmodel.campaigns.campaign_form import campaign_to_dict, task_to_dict
from perfmodel.campaigns.progress import progress_of
from perfmodel.store.campaigns import CampaignStore

#: How often the database is asked, seconds.
POLL_S = 1.0
#: What was written by clocks that differ, or became visible late, is seen all the same.
_MARGIN = timedelta(seconds=30)
#: What changes without anything having happened.
_CLOCKS = ("remaining_s", "ends_at")


class CampaignEvents:
    """Looks at a campaign again and again, and says what is new of it.

    It is asked rather than told, so that it sees what workers write past the service.
    """

    def __init__(self, campaigns: CampaignStore, name: str) -> None:
        self._campaigns = campaigns
        self._name = name
        self._shown: dict[str, Any] = {}
        self._told: dict[str, tuple[str, str | None]] = {}
        self._since = ""

    async def told(
        self, in_thread: Callable[..., Awaitable[Any]], seconds: float
    ) -> AsyncIterator[bytes]:
        """Yield events until the campaign or the time has ended."""
        until = time.monotonic() + seconds
        while True:
            events, has_ended = await in_thread(self._look)
            for event in events:
                yield event
            left_s = until - time.monotonic()
            if has_ended or left_s <= 0:
                return
            await asyncio.sleep(min(POLL_S, left_s))

    def _look(self) -> tuple[list[bytes], bool]:
        looked_at = (datetime.now(UTC) - _MARGIN).isoformat(timespec="milliseconds")
        campaign = self._campaigns.find(self._name)
        assert campaign is not None, "campaigns are never removed"
        events = self._of_tasks()
        self._since = looked_at
        progress = progress_of(campaign, self._campaigns.counts(self._name))
        entry = campaign_to_dict(campaign, progress)
        happened = {name: value for name, value in entry.items() if name not in _CLOCKS}
        if happened != self._shown:
            self._shown = happened
            events.append(_event("progress", entry))
        if progress.has_ended:
            events.append(_event("end", {"stage": progress.stage.value}))
        return events, progress.has_ended

    def _of_tasks(self) -> list[bytes]:
        events = []
        for task in self._campaigns.all_tasks(self._name, changed_since=self._since):
            said = (task.state.value, task.doubt)
            if not task.state.is_open and self._told.get(task.name) != said:
                self._told[task.name] = said
                events.append(_event("task", task_to_dict(task)))
        return events


def _event(kind: str, content: dict[str, Any]) -> bytes:
    return format_sse_event(data_str=orjson.dumps(content).decode(), event=kind)
