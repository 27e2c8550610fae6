"""The application, built from values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import perfmodel
from perfmodel.estimator import Estimator
from service import documentation, errors
from service.desk import Desk
from service.routes import health, predict
from service.settings import Settings


def create_app(estimator: Estimator, settings: Settings | None = None) -> FastAPI:
    """Build the service.

    Parameters
    ----------
    estimator : Estimator
        Answers.
    settings : Settings or None
        Limits; None reads them from the environment.

    Returns
    -------
    FastAPI
        An ASGI application.
    """
    settings = settings or Settings()
    desk = Desk(estimator, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="perfmodel",
        version=perfmodel.__version__,
        description="What throughput will a deep-learning job reach on a placement?",
        lifespan=lifespan,
        max_body_size=settings.max_body_bytes,
    )
    app.state.desk = desk
    app.state.settings = settings
    for routes in (predict, health):
        app.include_router(routes.router)
    errors.install(app)
    documentation.install(app)
    return app
