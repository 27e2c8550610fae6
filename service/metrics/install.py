"""Let an application count what it does."""

from __future__ import annotations

from fastapi import FastAPI

from perfmodel.estimator import Estimator
from service.metrics import route
from service.metrics.registry import Metrics
from service.metrics.watch import Watch
from service.settings import Settings


def install(app: FastAPI, metrics: Metrics, estimator: Estimator, settings: Settings) -> None:
    """Add ``/metrics`` and what counts to an app; the last to be added sees every request.

    Parameters
    ----------
    metrics : Metrics
        Where everything is counted; routes find it as ``app.state.metrics``.
    """
    app.state.metrics = metrics
    metrics.serve_model(estimator.model_version, estimator.models)
    app.include_router(route.router)
    app.add_middleware(
        Watch, metrics=metrics, log=settings.log_requests, slow_s=settings.slow_request_s
    )
