"""Put the adapters of Kubernetes into an application."""

from __future__ import annotations

from fastapi import FastAPI

from service.adapters.kubernetes import extender, volcano, webhook
from service.adapters.kubernetes.cluster import Cluster
from service.desk import Desk
from service.settings import Settings


def install(app: FastAPI, desk: Desk, settings: Settings) -> None:
    """Add the routes and what they share.

    Parameters
    ----------
    app : FastAPI
        Its ``state.job_lookup``, where there is one, finds the jobs that pods refer to.
    """
    app.state.kubernetes = Cluster(
        desk, settings, lookup=lambda: getattr(app.state, "job_lookup", None)
    )
    for adapter in (extender, volcano, webhook):
        app.include_router(adapter.router)
