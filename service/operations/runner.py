"""Work on operations: take them in, answer them, take over those that lost their worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
from starlette.types import ASGIApp

from perfmodel.errors import StoreError
from perfmodel.estimator.jobs.capture_terms import TERMS, CaptureTerms
from perfmodel.store.sql.leases import new_owner
from perfmodel.store.state.operations import Claim, Operation, OperationStore
from service.access.access_policy import GUEST
from service.http.errors import OverloadedError, TooManyWaitingError, defect_problem, problem
from service.http.logs import request_id_of_context
from service.metrics.registry import Metrics
from service.operations.kept_request import KeptRequest, replay

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Operations that are worked on at a time, and that may be open in all, a quarter of them of one
#: key; past that new ones are turned away.
_AT_ONCE, _MOST_OPEN = 4, 1_000
#: How often an operation is begun at most.
_MOST_ATTEMPTS = 5
#: Longest pause before an operation is tried again for which there was no room, seconds.
_LONGEST_PAUSE_S = 30.0
#: How often old operations are looked for, seconds.
_SWEEP_S = 60.0


class Runner:
    """Answers operations in the background; belongs to one event loop.

    Parameters
    ----------
    metrics : Metrics
        Shows the queue ``operations``: those that this process took in or works on.
    lease_s : float
        Time after which an operation whose worker is not heard of is taken over, seconds.
    keep_s : float
        Time for which an operation is kept after it has ended, seconds.
    poll_s : float
        How often it is looked whether there is something to do, seconds.
    """

    def __init__(
        self,
        store: OperationStore,
        metrics: Metrics,
        *,
        lease_s: float = 10.0,
        keep_s: float = 86_400.0,
        poll_s: float = 1.0,
    ) -> None:
        self._store = store
        self._depth = metrics.queue("operations")
        self._lease_s = lease_s
        self._keep_s = keep_s
        self._poll_s = min(poll_s, lease_s / 4)
        #: Names this process among all that share the database.
        self.owner = new_owner()
        #: Answers what is replayed; put here by who stands before it.
        self.inner: ASGIApp | None = None
        #: Joins the scope of what is replayed.
        self.facts: dict[str, Any] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="operations")
        self._wake = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._swept_at = 0.0

    async def submit(self, request: KeptRequest, *, kind: str, caller: str = "") -> Operation:
        """Keep a request; when this returns it is on disk and will be answered.

        Raises
        ------
        OverloadedError
            As many as may be open already are.
        TooManyWaitingError
            As many of this key as may.
        StoreError
            The database cannot be written.
        """
        operation = await self._in_thread(
            lambda: self._store.start(
                kind,
                request.to_bytes(),
                owner=self.owner,
                caller=caller,
                most_open=_MOST_OPEN,
                most_of_caller=None if caller in ("", GUEST) else _MOST_OPEN // 4,
            )
        )
        if operation is None:
            own = await self._in_thread(self._store.open_of, caller)
            if caller not in ("", GUEST) and own >= _MOST_OPEN // 4:
                raise TooManyWaitingError(
                    f"{own} operations of this key are open already. Let some end first."
                )
            raise OverloadedError(f"{_MOST_OPEN} operations are open already. Try again later.")
        self.start()
        self._wake.set()
        return operation

    async def find(self, name: str, *, wait_s: float = 0.0) -> Operation | None:
        """Return an operation, or None; may wait for its end."""
        until = time.monotonic() + wait_s
        pause_s = 0.02
        while True:
            found = await self._in_thread(self._store.find, name)
            left_s = until - time.monotonic()
            if found is None or found.has_ended or left_s <= 0:
                return found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, 1.0)

    async def result(self, name: str) -> bytes | None:
        """Return what came of an operation that is done, or None."""
        return await self._in_thread(self._store.result, name)

    async def remove(self, name: str) -> bool:
        """Forget an operation, and end what is done here for it; return whether there was one."""
        was_there = await self._in_thread(self._store.remove, name)
        task = self._running.pop(name, None) if was_there else None
        if task is not None:
            task.cancel()
        return was_there

    def start(self) -> None:
        """Begin to look for what there is to do."""
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Hand what is under way back to others, and end."""
        tasks = [task for task in (self._keeper, *self._running.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown()

    async def _keep(self) -> None:
        lost = False
        while True:
            self._wake.clear()
            try:
                await self._round()
                lost = False
            except StoreError as error:
                if not lost:
                    logger.warning("operations wait for the database: %s", error)
                lost = True
            # Not wait_for, which may lose a cancellation that meets the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._wake.wait()

    async def _round(self) -> None:
        """Renew leases, begin what waits, and clear away what is old."""
        if self._running:
            names = list(self._running)
            await self._in_thread(
                lambda: self._store.renew(self.owner, names, lease_s=self._lease_s)
            )
        while len(self._running) < _AT_ONCE and (claim := await self._in_thread(self._claim)):
            # A claim that is its own, of a worker that was too slow to renew it: once is enough.
            if claim.name not in self._running:
                task = asyncio.get_running_loop().create_task(self._work(claim))
                self._running[claim.name] = task
        self._depth.set(await self._in_thread(self._store.depth, self.owner))
        if time.monotonic() - self._swept_at > min(_SWEEP_S, self._lease_s):
            self._swept_at = time.monotonic()
            await self._in_thread(self._sweep)

    def _claim(self) -> Claim | None:
        return self._store.claim(self.owner, lease_s=self._lease_s, most_attempts=_MOST_ATTEMPTS)

    def _sweep(self) -> None:
        given_up = self._store.give_up(
            orjson.dumps(_lost_problem()).decode(),
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
            most_attempts=_MOST_ATTEMPTS,
        )
        if given_up:
            logger.error("%d operations were begun too often and are given up", given_up)
        self._store.forget_ended(self._keep_s)

    async def _work(self, claim: Claim) -> None:
        request_id_of_context.set(f"operation/{claim.name}")
        TERMS.set(CaptureTerms(caller=claim.caller))
        try:
            status, body = await self._answer(claim)
            await self._settle(lambda: self._end(claim, status, body))
        except asyncio.CancelledError:
            if claim.name in self._running:
                # This process ends; another goes on at once.
                with contextlib.suppress(StoreError):
                    self._store.put_back(claim)
            raise
        finally:
            self._running.pop(claim.name, None)
            self._wake.set()

    async def _answer(self, claim: Claim) -> tuple[int, bytes]:
        assert self.inner is not None
        request = KeptRequest.from_bytes(claim.request)
        try:
            return await replay(self.inner, request, caller=claim.caller, **self.facts)
        except Exception:
            logger.exception("the operation %s failed", claim.name)
            return HTTPStatus.INTERNAL_SERVER_ERROR, orjson.dumps(defect_problem())

    def _end(self, claim: Claim, status: int, body: bytes) -> None:
        if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            # No room or no database for it now; that says nothing about what was asked.
            pause_s = min(2.0**claim.attempts, _LONGEST_PAUSE_S)
            self._store.put_back(claim, wait_s=pause_s, counts=True)
        elif status >= HTTPStatus.BAD_REQUEST:
            self._store.fail(claim, body.decode(), status=status)
        else:
            self._store.finish(claim, body, status=status)

    async def _settle(self, action: Callable[[], None]) -> None:
        """Write down what came of an operation, once the database is there."""
        while True:
            try:
                await self._in_thread(action)
            except StoreError:
                await asyncio.sleep(self._poll_s)
            else:
                return

    async def _in_thread(self, action: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, action, *args)


def _lost_problem() -> dict[str, Any]:
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        kind="operation-lost",
        title="Operation lost",
        detail=f"The operation was begun {_MOST_ATTEMPTS} times and never came to its end: its "
        "worker died, or there was no room for it. Ask for less at a time.",
    )
