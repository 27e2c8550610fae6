"""The application, built from values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

import perfmodel
from perfmodel.estimator import Estimator
from service.access import install as access
from service.adapters import dstack, kserve, slurm
from service.adapters.kubernetes import extender, volcano, webhook
from service.adapters.kubernetes.cluster import Cluster
from service.dispatch.direct import DirectPredictions
from service.dispatch.dispatcher import Dispatcher
from service.http import errors
from service.http.body_coding import BodyCoding
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
from service.routes.learning import campaigns, models, retraining
from service.settings import Settings
from service.versions.own_catalog import OwnCatalog

#: In the order in which the documentation lists them.
_ROUTES = (
    answers, graphs, accelerators, models, prices, health, kserve, slurm, dstack, jobs,
    observations, campaigns, retraining, operations, page, extender, volcano, webhook,
)  # fmt: skip


def create_app(
    estimator: Estimator,
    settings: Settings | None = None,
    *,
    on_close: Callable[[], None] | None = None,
) -> FastAPI:
    """Build the service.

    Parameters
    ----------
    settings : Settings or None
        None reads them from the environment.
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
    keeper = RetrainingKeeper(state.retrainings, state.database.url, settings, counts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state.watch.start()
        runner.start()
        expiry.start()
        keeper.start()
        async with dispatcher.watch.running():
            yield
        await asyncio.to_thread(keeper.stop)
        await runner.stop()
        expiry.stop()
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
    app.state.settings = settings
    app.state.own_catalog = OwnCatalog(state, dispatcher.models)
    app.state.operations = runner
    app.state.kubernetes = Cluster(dispatcher, settings)
    runner.facts["app"] = app
    for routes in _ROUTES:
        app.include_router(routes.router)
    _surround(app, dispatcher, runner, settings)
    errors.install(app)
    document.install(app)
    return app


def _surround(app: FastAPI, dispatcher: Dispatcher, runner: Runner, settings: Settings) -> None:
    """Put around the routes what every request passes, the innermost first."""
    app.add_middleware(RespondAsync, runner=runner)
    app.add_middleware(DirectPredictions, dispatcher=dispatcher)
    app.add_middleware(
        BodyCoding,
        limit_bytes=settings.max_body_bytes,
        limits_bytes={"/v1/graphs": settings.max_upload_bytes},
    )
    state = dispatcher.state
    access.install(app, settings, state.database.connections, state.watch)
    app.add_middleware(
        RequestMonitor,
        metrics=dispatcher.metrics,
        log=settings.log_requests,
        slow_s=settings.slow_request_s,
    )
