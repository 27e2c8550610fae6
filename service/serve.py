"""Start the service."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import logging
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.captures.capture_pool import CapturePool
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.predictors.serving.own_process import prepare_process
from perfmodel.registry.mirror import local_models
from perfmodel.store.state.database import Database
from service.access.install import check_binding, is_shared, keys_file, keys_of
from service.access.key_file import KeyFile
from service.app import create_app
from service.http import logs
from service.http.connections import check_free, hold_many_connections, parser
from service.retraining.keeper import rules_of, stated_sources
from service.settings import Settings, read_settings

logger = logging.getLogger(__name__)

#: Allocations after which the youngest objects are collected, and collections of younger ones after
#: which the older two generations are.
_THRESHOLDS = (10_000, 3, 1_500)
#: How long a thread may keep the others from running, seconds.
_SWITCH_S = 0.0005


def app_from_settings(settings: Settings | None = None) -> FastAPI:
    """Build the application that settings describe."""
    settings = settings or Settings()
    turns = Turns(settings.capture_processes, most_wait_s=settings.capture_wait_s)
    capture = CapturePool(turns, most=settings.capture_budget)
    graphs = GraphLibrary(
        capture=capture, database=Database(settings.database), check=capture.check
    )
    models = local_models(settings.models, settings.models_options, settings.models_cache)
    estimator = Estimator.from_folder(models, graphs=graphs)
    return create_app(estimator, settings, turns=turns, on_close=capture.close)


def app_of_worker() -> FastAPI:
    """Build the application of a process that does nothing else: the logs are its own too."""
    settings = Settings()
    logs.configure(level=settings.log_level, as_json=settings.log_format == "json")
    with loading():
        prepare_process()
        app = app_from_settings(settings)
    for limit in limits_of(app):
        logger.warning("%s", limit)
    # Threads that predict give way to the loop that answers within this; the default of 5 ms is
    # longer than some callers wait.
    sys.setswitchinterval(_SWITCH_S)
    return app


def limits_of(app: FastAPI) -> list[str]:
    """Return what this installation cannot do, for the first lines of the log."""
    found = list(app.state.dispatcher.problems)
    if not app.state.dispatcher.estimator.models:
        found.append(
            "No trained model is in PERFMODEL_MODELS: answers are those of the analytical model, "
            "and say so."
        )
    found += [
        f"{variable} is {str(folder)!r}, which is no folder: no retraining can be done here until "
        "it is one."
        for variable, folder in stated_sources(app.state.settings)
        if not folder.is_dir()
    ]
    if importlib.util.find_spec("torch") is None:
        found.append(
            "PyTorch is not installed (pip install 'perfmodel[train]'): no model is captured here. "
            "Models whose graphs are shipped or registered, or were captured before, are answered."
        )
    return found


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    models: str | Path = "models",
    database: str = "sqlite:///perfmodel.db",
    workers: int = 1,
    keys: str | Path | None = None,
    observations_keep_s: float | None = None,
    insecure: bool = False,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Answer over HTTP until interrupted.

    Parameters
    ----------
    port : int
        0 takes a free one.
    keys : path or None
        File of the keys; None: ``keys.json`` beside the database.
    observations_keep_s : float or None
        Age from which observations count no longer; None: what the environment says, else never.
    insecure : bool
        Listen beyond the loopback even if there is no key.
    on_ready : callable or None
        Called with the URL as soon as questions are answered; one worker only. None prints a
        line.

    Raises
    ------
    InvalidInputError
        There is no key, and strangers could reach ``host``; a certificate that cannot be used; a
        port for health that is taken; or what shall start retrainings names no time.
    """
    stated = {
        "PERFMODEL_MODELS": models,
        "PERFMODEL_DATABASE": database,
        "PERFMODEL_KEYS": keys,
        "PERFMODEL_OBSERVATIONS_KEEP_S": observations_keep_s,
        "PERFMODEL_INSECURE": insecure or None,
    }
    # Workers are processes of their own: they read the environment.
    os.environ.update({name: str(value) for name, value in stated.items() if value is not None})
    settings = read_settings()
    hold_many_connections()
    _check(host, settings)
    config = _config(host, port, workers, settings)
    if workers > 1:
        _serve_with_workers(config)
    else:
        # Ctrl-C is how it is meant to end; the server has shut down by the time this is raised.
        with contextlib.suppress(KeyboardInterrupt):
            _Server(config, on_ready or _announce).run()


def _check(host: str, settings: Settings) -> None:
    """Refuse here, where whoever starts it is told, what no worker could do."""
    _check_binding(host, settings)
    _check_certificate(settings)
    if settings.health_port:
        # Whoever has it would answer for this service.
        hint = "It is what PERFMODEL_HEALTH_HOST and PERFMODEL_HEALTH_PORT say."
        check_free(settings.health_host, settings.health_port, hint=hint)
    rules_of(settings)


def _config(host: str, port: int, workers: int, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        "service.serve:app_of_worker",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        # The compiled loop and parser where they are installed (they are not on every platform).
        loop="auto",
        http=parser(),
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )


def _check_binding(host: str, settings: Settings) -> None:
    if not is_shared(settings.database):
        check_binding(host, KeyFile(keys_file(settings)), insecure=settings.insecure)
        return
    database = Database(settings.database)
    try:
        keys = keys_of(settings, database.connections)
        check_binding(host, keys, insecure=settings.insecure)
    finally:
        # Workers open connections of their own.
        database.close()


def _check_certificate(settings: Settings) -> None:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        return
    if certificate is None:
        raise InvalidInputError(
            "PERFMODEL_TLS_KEY is stated without PERFMODEL_TLS_CERTIFICATE; state both, or none to "
            "answer without TLS."
        )
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:  # what ssl raises is one
        with_key = f" with the PERFMODEL_TLS_KEY {key}" if key else ""
        raise InvalidInputError(
            f"The PERFMODEL_TLS_CERTIFICATE {certificate}{with_key} cannot be used: "
            f"{error.strerror or error}. Both are PEM files that the service can read."
        ) from error


def _serve_with_workers(config: uvicorn.Config) -> None:
    with tempfile.TemporaryDirectory(prefix="perfmodel-metrics-") as folder:
        # Before the workers start: each counts into files of its own, any of them adds them up.
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        uvicorn.run(
            config.app,
            factory=True,
            host=config.host,
            port=config.port,
            workers=config.workers,
            log_level="info",
            access_log=False,
            server_header=False,
            http=parser(),
            ssl_certfile=config.ssl_certfile,
            ssl_keyfile=config.ssl_keyfile,
        )


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then say so."""
        await super().startup(sockets=sockets)
        if self.started:
            bound = self.servers[0].sockets[0].getsockname()
            host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
            scheme = "https" if self.config.is_ssl else "http"
            self._on_ready(f"{scheme}://{host}:{bound[1]}")


def _announce(url: str) -> None:
    print(f"perfmodel answers on {url} (docs: {url}/docs). Ctrl-C ends it.", flush=True)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Load what stays: nothing is collected meanwhile, nor looked at by later collections.

    A full collection walks through everything that was ever loaded and stops all answers for 0.1 s;
    large bodies bring it about every few requests. What is there afterwards stays, and what
    requests make dies with them by its reference counts.
    """
    gc.disable()
    try:
        yield
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
    finally:
        gc.enable()
