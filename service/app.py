"""The application, built from values, and what goes on beside its answers from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

import perfmodel
from perfmodel.estimator import Estimator
from perfmodel.estimator.captures.turns import Turns
from perfmodel.store.feedback import AlarmStore
from service.access import install as access
from service.adapters import dstack, kserve, slurm
from service.adapters.kubernetes import extender, volcano, webhook
from service.adapters.kubernetes.cluster import Cluster
from service.answering.request_terms import RequestTerms
from service.campaigns.open_streams import OpenStreams
from service.dispatch.before_routes import BeforeRoutes
from service.dispatch.dispatcher import Dispatcher
from service.feedback.alarm_webhook import Webhook
from service.feedback.drift_keeper import DriftKeeper
from service.feedback.drift_report import DriftReport
from service.graphs.corrections import GraphCorrections
from service.http import errors
from service.http.bodies import HeadRequests, RequestBodies
from service.http.documentation import problems
from service.http.draining import Draining
from service.http.health_server import HealthServer
from service.metrics.registry import Metrics
from service.metrics.request_monitor import RequestMonitor
from service.observations.accuracy import AccuracyReport
from service.observations.intake import ObservationIntake
from service.observations.retraction import Expiry
from service.openapi import document
from service.operations.middleware import RespondAsync
from service.operations.runner import Runner
from service.retraining.keeper import RetrainingKeeper
from service.routes import (
    accelerators,
    answers,
    graphs,
    health,
    jobs,
    observations,
    operations,
    page,
    prices,
)
from service.routes.known_query import refuse_unknown_query
from service.routes.learning import campaigns, drift, models, retraining, shadows
from service.settings import Settings
from service.versions.own_catalog import OwnCatalog


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
        return self._dispatcher.ill_health


def _webhook(alarms: AlarmStore, metrics: Metrics, settings: Settings) -> Webhook | None:
    if not settings.drift_webhook:
        return None
    return Webhook(
        alarms,
        settings.drift_webhook,
        allows_private=settings.drift_webhook_private,
        on_sent=metrics.drift_webhook,
    )


#: In the order in which the documentation lists them.
_ROUTES = (
    answers, graphs, accelerators, models, shadows, prices, health, kserve, slurm, dstack, jobs,
    observations, drift, campaigns, retraining, operations, page, extender, volcano, webhook,
)  # fmt: skip

#: Called as others have it: API servers, probes and browsers add to a query what they like.
_OF_OTHERS = (health, page, kserve, slurm, dstack, extender, volcano, webhook)


def create_app(
    estimator: Estimator,
    settings: Settings | None = None,
    *,
    turns: Turns | None = None,
    on_close: Callable[[], None] | None = None,
) -> FastAPI:
    """Build the service.

    Parameters
    ----------
    settings : Settings or None
        None reads them from the environment.
    turns : Turns or None
        Whose turn it is to have a process, which reading ONNX files shares with captures; None:
        turns of its own.
    on_close : callable or None
        Called when the application ends.
    """
    settings = settings or Settings()
    metrics = Metrics()
    metrics.serve_model(estimator.model_version, estimator.models)
    dispatcher = Dispatcher(estimator, settings, metrics)
    background = Background(dispatcher, settings, on_close)
    app = FastAPI(
        title="perfmodel",
        version=perfmodel.__version__,
        description="What throughput will a deep-learning job reach on a placement?",
        lifespan=background.running,
    )
    for name, part in _parts(dispatcher, background, settings).items():
        setattr(app.state, name, part)
    app.state.turns = turns or Turns(
        settings.capture_processes, most_wait_s=settings.capture_wait_s
    )
    app.router.routes.extend(_routes())
    _surround(app, dispatcher, background, settings)
    errors.install(app)
    document.install(app)
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """Return the routes of all applications of a process: to include them builds each anew."""
    router = APIRouter()
    for routes in _ROUTES:
        if routes in _OF_OTHERS:
            router.include_router(routes.router)
        else:
            refusing = [Depends(refuse_unknown_query)]
            router.include_router(routes.router, dependencies=refusing, responses=problems(422))
    return router.routes


def _parts(dispatcher: Dispatcher, background: Background, settings: Settings) -> dict[str, object]:
    """Return what routes ask, by the name in the state of the application."""
    return {
        "settings": settings,
        "dispatcher": dispatcher,
        "operations": background.operations,
        "draining": background.draining,
        "campaign_streams": OpenStreams(),
        "drift_keeper": background.drift_keeper,
        "drift_report": DriftReport(dispatcher, looks=settings.drift_poll_s > 0),
        "observation_intake": ObservationIntake(dispatcher),
        "accuracy_report": AccuracyReport(dispatcher),
        "own_catalog": OwnCatalog(dispatcher.state, dispatcher.models),
        "graph_corrections": GraphCorrections(
            dispatcher.state, dispatcher.models.forget_registered
        ),
        "kubernetes": Cluster(dispatcher, settings),
    }


def _surround(
    app: FastAPI, dispatcher: Dispatcher, background: Background, settings: Settings
) -> None:
    """Put around the routes what every request passes, the innermost first."""
    background.operations.facts["app"] = app
    app.add_middleware(RespondAsync, runner=background.operations)
    app.add_middleware(BeforeRoutes, dispatcher=dispatcher)
    app.add_middleware(
        RequestBodies,
        limit_bytes=settings.max_body_bytes,
        limits_bytes={"/v1/graphs": settings.max_upload_bytes},
        most_bytes=settings.max_bytes_under_way,
    )
    app.add_middleware(RequestTerms, most=settings.capture_budget)
    state = dispatcher.state
    access.install(app, settings, state.database.connections, state.watch)
    app.add_middleware(HeadRequests)
    app.add_middleware(
        RequestMonitor,
        metrics=dispatcher.metrics,
        draining=background.draining,
        log=settings.log_requests,
        slow_s=settings.slow_request_s,
    )
