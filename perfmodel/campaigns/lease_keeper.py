"""Renew the lease of a task as long as its worker lives."""

from __future__ import annotations

import threading
from typing import Self

from perfmodel.errors import StoreError
from perfmodel.store.campaigns import TaskStore
from perfmodel.store.campaigns.campaign_records import Task


class LeaseKeeper:
    """Renews a lease from a thread, from ``with`` to the end of its block.

    The waits go by the monotonic clock of this process and the lease by that of the database, so
    that no clock of a host that jumps takes a task away. A database that is out of reach for a
    while is asked again.

    Parameters
    ----------
    lease_s : float
        Renewed three times as often, seconds.
    """

    def __init__(self, tasks: TaskStore, owner: str, claim: Task, *, lease_s: float) -> None:
        self._tasks = tasks
        self._owner = owner
        self._claim = claim
        self._lease_s = lease_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="lease-keeper")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(self._lease_s / 3):
            try:
                if not self._tasks.renew(self._owner, [self._claim.name], lease_s=self._lease_s):
                    return
            except StoreError:
                continue
