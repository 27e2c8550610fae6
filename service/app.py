"""The application, built from values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

import perfmodel
from perfmodel.estimator import Estimator
from service import documentation, errors
from service.access import install as access
from service.accuracy_desk import AccuracyDesk
from service.adapters import dstack, kserve, slurm
from service.adapters.kubernetes.install import install as install_kubernetes
from service.body_limit import BodyLimit
from service.compression import Compression
from service.decompression import Decompression
from service.desk import Desk
from service.explain_desk import ExplainDesk
from service.known_answers import KnownAnswers
from service.metrics import install as metrics
from service.metrics.registry import Metrics
from service.observation_desk import ObservationDesk
from service.operations.middleware import RespondAsync
from service.operations.runner import Runner
from service.own_catalog import OwnCatalog
from service.routes import (
    accelerators,
    accuracy,
    explain,
    graphs,
    health,
    jobs,
    models,
    observations,
    operations,
    page,
    placements,
    predict,
    prices,
)
from service.settings import Settings

_ROUTES = (
    predict,
    placements,
    graphs,
    accelerators,
    models,
    prices,
    health,
    kserve,
    slurm,
    dstack,
    jobs,
    observations,
    operations,
    explain,
    accuracy,
    page,
)


def create_app(
    estimator: Estimator,
    settings: Settings | None = None,
    *,
    on_close: Callable[[], None] | None = None,
) -> FastAPI:
    """Build the service.

    Parameters
    ----------
    estimator : Estimator
        Answers.
    settings : Settings or None
        Limits; None reads them from the environment.
    on_close : callable or None
        Called when the application ends.

    Returns
    -------
    FastAPI
        An ASGI application.
    """
    settings = settings or Settings()
    counts = Metrics()
    desk = Desk(estimator, settings, counts)

    runner = Runner(desk.state.operations, counts, keep_s=settings.operations_keep_s)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk.state.watch.start()
        runner.start()
        async with desk.watch.running():
            yield
        await runner.stop()
        desk.close()
        if on_close is not None:
            on_close()

    app = FastAPI(
        title="perfmodel",
        version=perfmodel.__version__,
        description="What throughput will a deep-learning job reach on a placement?",
        lifespan=lifespan,
    )
    app.state.desk = desk
    app.state.job_lookup = desk.state.references
    app.state.observation_desk = ObservationDesk(desk, estimator, desk.state)
    app.state.explain_desk = ExplainDesk(desk)
    app.state.accuracy_desk = AccuracyDesk(desk)
    app.state.settings = settings
    app.state.own_catalog = OwnCatalog(desk.state, desk.models)
    app.state.operations = runner
    runner.facts["app"] = app
    for routes in _ROUTES:
        app.include_router(routes.router)
    install_kubernetes(app, desk, settings)
    _surround(app, desk, runner, settings)
    access.install(app, settings, desk.state)
    metrics.install(app, counts, estimator, settings)
    errors.install(app)
    documentation.install(app)
    return app


def _surround(app: FastAPI, desk: Desk, runner: Runner, settings: Settings) -> None:
    """Put around the routes what stands within access and metrics, the innermost first."""
    app.add_middleware(KnownAnswers, desk=desk)
    app.add_middleware(RespondAsync, runner=runner)
    app.add_middleware(
        BodyLimit,
        limit_bytes=settings.max_body_bytes,
        limits_bytes={"/v1/graphs": settings.max_upload_bytes},
    )
    app.add_middleware(Decompression)
    app.add_middleware(Compression)
