"""What goes on beside the answers, from the start of an application to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from perfmodel.store.feedback import AlarmStore
from service.dispatch.dispatcher import Dispatcher
from service.feedback.alarm_webhook import Webhook
from service.feedback.drift_keeper import DriftKeeper
from service.http.draining import Draining
from service.http.health_server import HealthServer
from service.http.redaction import without_places
from service.metrics.registry import Metrics
from service.observations.expiry import Expiry
from service.operations.runner import Runner
from service.retraining.keeper import RetrainingKeeper
from service.settings import Settings


class Background:
    """The threads and tasks of one application; none runs before it is started.

    Parameters
    ----------
    on_close : callable or None
        Called when all of them have ended.

    Attributes
    ----------
    draining : Draining
        Whether the process shall end.
    drift_keeper : DriftKeeper
        Compares observations with what was answered before, if it is the keeper of its database.
    operations : Runner
        Answers requests later.
    """

    def __init__(
        self, dispatcher: Dispatcher, settings: Settings, on_close: Callable[[], None] | None = None
    ) -> None:
        state, metrics = dispatcher.state, dispatcher.metrics
        self._dispatcher, self._on_close = dispatcher, on_close
        self.draining = Draining(settings.drain_s)
        self.operations = Runner(state.operations, metrics, keep_s=settings.operations_keep_s)
        self._expiry = Expiry(state, settings.observations_keep_s)
        self._retraining = RetrainingKeeper(
            state.retrainings, state.retraining_triggers, state.database.url, settings, metrics
        )
        self._webhook = _webhook(state.alarms, metrics, settings)
        self.drift_keeper = DriftKeeper(
            dispatcher, self._webhook, poll_s=settings.drift_poll_s, share=settings.drift_share
        )
        self._health = HealthServer(settings.health_host, settings.health_port, self._problems)

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Let everything run meanwhile: the lifespan of an application."""
        self._start()
        async with self._dispatcher.watch.running():
            yield
        await self._stop()

    def _start(self) -> None:
        self.draining.install()
        self._health.start()
        self._dispatcher.state.watch.start()
        self.operations.start()
        self._expiry.start()
        self._dispatcher.shadow.start()
        self._retraining.start()
        self.drift_keeper.start()

    async def _stop(self) -> None:
        await asyncio.to_thread(self._retraining.close)
        self._health.stop()
        await self.operations.stop()
        self._expiry.close()
        self.drift_keeper.close()
        if self._webhook is not None:
            self._webhook.close()
        self._dispatcher.close()
        if self._on_close is not None:
            self._on_close()

    def _problems(self) -> Sequence[str] | None:
        """Return why the service is not ready, in words for anybody; None: it is about to end."""
        if self.draining.has_begun:
            return None
        return [without_places(each) for each in self._dispatcher.problems]


def _webhook(alarms: AlarmStore, metrics: Metrics, settings: Settings) -> Webhook | None:
    if not settings.drift_webhook:
        return None
    return Webhook(
        alarms,
        settings.drift_webhook,
        allows_private=settings.drift_webhook_private,
        on_sent=metrics.drift_webhook,
    )
