"""Renew the leases of tasks as long as their worker lives."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Self

from perfmodel.errors import StoreError
from perfmodel.store.campaigns import TaskStore
from perfmodel.store.campaigns.campaign_records import Task


class LeaseKeeper:
    """Renews leases from a thread, from ``with`` to the end of its block.

    The waits go by the monotonic clock of this process and the leases by that of the database, so
    that no clock of a host that jumps takes a task away. A database that is out of reach for a
    while is asked again.

    Parameters
    ----------
    lease_s : float
        Renewed three times as often, seconds.
    """

    def __init__(self, tasks: TaskStore, owner: str, *, lease_s: float) -> None:
        self._tasks = tasks
        self._owner = owner
        self._lease_s = lease_s
        self._claims: dict[str, Task] = {}
        self._lost: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="lease-keeper")

    @property
    def claims(self) -> Collection[Task]:
        """What is held."""
        return tuple(self._claims.values())

    def hold(self, claim: Task) -> None:
        """Renew the lease of a task from now on."""
        self._claims[claim.name] = claim

    def let_go(self, claim: Task) -> None:
        """Renew it no more."""
        self._claims.pop(claim.name, None)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(self._lease_s / 3):
            for claim in self.claims:
                if claim.name not in self._lost:
                    self._renew(claim.name)

    def _renew(self, name: str) -> None:
        try:
            if not self._tasks.renew(self._owner, [name], lease_s=self._lease_s):
                self._lost.add(name)
        except StoreError:
            return
