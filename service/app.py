"""The application, built from values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

import perfmodel
from perfmodel.estimator import Estimator
from perfmodel.estimator.captures.turns import Turns
from perfmodel.store.feedback import AlarmStore
from service.access import install as access
from service.adapters import dstack, kserve, slurm
from service.adapters.kubernetes import extender, volcano, webhook
from service.adapters.kubernetes.cluster import Cluster
from service.dispatch.capture_reports import CaptureReports
from service.dispatch.direct import DirectPredictions
from service.dispatch.dispatcher import Dispatcher
from service.feedback.drift_keeper import DriftKeeper
from service.feedback.drift_report import DriftReport
from service.feedback.webhook import Webhook
from service.http import errors
from service.http.body_coding import BodyCoding
from service.http.body_room import BodyRoom
from service.http.draining import ClosesConnections, Draining
from service.http.health_server import HealthServer
from service.http.redaction import without_places
from service.metrics.registry import Metrics
from service.metrics.request_monitor import RequestMonitor
from service.observations.accuracy import AccuracyReport
from service.observations.expiry import Expiry
from service.observations.intake import ObservationIntake
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
from service.routes.learning import campaigns, drift, models, retraining, shadows
from service.settings import Settings
from service.versions.own_catalog import OwnCatalog

#: In the order in which the documentation lists them.
_ROUTES = (
    answers, graphs, accelerators, models, shadows, prices, health, kserve, slurm, dstack, jobs,
    observations, drift, campaigns, retraining, operations, page, extender, volcano, webhook,
)  # fmt: skip


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
    counts = Metrics()
    counts.serve_model(estimator.model_version, estimator.models)
    dispatcher = Dispatcher(estimator, settings, counts)
    state = dispatcher.state
    runner = Runner(state.operations, counts, keep_s=settings.operations_keep_s)
    expiry = Expiry(state, settings.observations_keep_s)
    retraining_keeper = RetrainingKeeper(
        state.retrainings, state.retraining_triggers, state.database.url, settings, counts
    )
    drift_webhook = _webhook(state.alarms, counts, settings)
    drift_keeper = DriftKeeper(
        dispatcher, drift_webhook, poll_s=settings.drift_poll_s, share=settings.drift_share
    )
    draining = Draining(settings.drain_s)
    health_server = HealthServer(
        settings.health_host,
        settings.health_port,
        lambda: None if draining.has_begun else _told(dispatcher.problems),
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        draining.install()
        health_server.start()
        state.watch.start()
        runner.start()
        expiry.start()
        dispatcher.shadow.start()
        retraining_keeper.start()
        drift_keeper.start()
        async with dispatcher.watch.running():
            yield
        await asyncio.to_thread(retraining_keeper.stop)
        health_server.stop()
        await runner.stop()
        expiry.stop()
        drift_keeper.stop()
        if drift_webhook is not None:
            drift_webhook.close()
        dispatcher.close()
        if on_close is not None:
            on_close()

    app = FastAPI(
        title="perfmodel",
        version=perfmodel.__version__,
        description="What throughput will a deep-learning job reach on a placement?",
        lifespan=lifespan,
    )
    app.state.dispatcher = dispatcher
    app.state.observation_intake = ObservationIntake(dispatcher)
    app.state.accuracy_report = AccuracyReport(dispatcher)
    app.state.drift_report = DriftReport(dispatcher, looks=settings.drift_poll_s > 0)
    app.state.drift_keeper = drift_keeper
    app.state.settings = settings
    app.state.draining = draining
    app.state.turns = turns or Turns(
        settings.capture_processes, most_wait_s=settings.capture_wait_s
    )
    app.state.own_catalog = OwnCatalog(state, dispatcher.models)
    app.state.operations = runner
    app.state.kubernetes = Cluster(dispatcher, settings)
    runner.facts["app"] = app
    for routes in _ROUTES:
        app.include_router(routes.router)
    _surround(app, dispatcher, runner, settings)
    app.add_middleware(ClosesConnections, draining=draining)
    errors.install(app)
    document.install(app)
    return app


def _webhook(alarms: AlarmStore, counts: Metrics, settings: Settings) -> Webhook | None:
    if not settings.drift_webhook:
        return None
    return Webhook(
        alarms,
        settings.drift_webhook,
        allows_private=settings.drift_webhook_private,
        on_sent=counts.drift_webhook,
    )


def _surround(app: FastAPI, dispatcher: Dispatcher, runner: Runner, settings: Settings) -> None:
    """Put around the routes what every request passes, the innermost first."""
    app.add_middleware(RespondAsync, runner=runner)
    app.add_middleware(DirectPredictions, dispatcher=dispatcher)
    uploads = {"/v1/graphs": settings.max_upload_bytes}
    app.add_middleware(BodyCoding, limit_bytes=settings.max_body_bytes, limits_bytes=uploads)
    app.add_middleware(
        BodyRoom,
        most_bytes=settings.max_bytes_under_way,
        limit_bytes=settings.max_body_bytes,
        limits_bytes=uploads,
    )
    app.add_middleware(CaptureReports, most=settings.capture_budget)
    state = dispatcher.state
    access.install(app, settings, state.database.connections, state.watch)
    app.add_middleware(
        RequestMonitor,
        metrics=dispatcher.metrics,
        log=settings.log_requests,
        slow_s=settings.slow_request_s,
    )


def _told(problems: Sequence[str]) -> list[str]:
    return [without_places(each) for each in problems]
