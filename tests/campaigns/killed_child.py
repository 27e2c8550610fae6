"""Works on a campaign in processes that may be killed; forked for ``test_killed.py``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from campaign_world import Bench, CampaignWorld
from clean_forks import fork_on_demand
from killed_at import kill_at

from perfmodel.store import durable
from perfmodel.store.campaigns import ReferenceStore, TaskStore
from perfmodel.store.profiles import ProfileStore

STEPS: tuple[tuple[Any, str], ...] = (
    (TaskStore, "claim"), (TaskStore, "finish"), (TaskStore, "check"),
    (ReferenceStore, "add"), (ProfileStore, "append"), (ProfileStore, "compact"),
    (durable, "_sync"), (Bench, "__call__"),
)  # fmt: skip


def work(
    url: str, folder: str, at: int | None, fatal_batch: int | None = None, beside: int = 0
) -> None:
    """Measure what waits.

    Parameters
    ----------
    at : int or None
        The process is killed at this moment.
    fatal_batch : int or None
        A job of this batch kills it.
    beside : int
        Tasks that are begun beside the one that is measured.
    """

    def end(job: Any) -> None:
        if job.batch_size == fatal_batch:
            os.kill(os.getpid(), signal.SIGKILL)

    if at is not None:
        kill_at(at, STEPS)
    world = CampaignWorld(url=url, folder=Path(folder))
    bench = Bench(log=world.folder / "begun", before=end)
    world.worker(bench, beside=beside).run()
    world.close()


if __name__ == "__main__":
    fork_on_demand(work)
