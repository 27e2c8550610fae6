"""What the service can be told from outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.jobs.capture_terms import CaptureBudget
from perfmodel.registry.file_store import is_url
from perfmodel.registry.mirror import cache_folder

_MIB = 1024 * 1024

#: Fewer than comparisons of two versions that are kept, so that none is made twice.
MOST_QUESTIONS = 2_000


def _location(value: Any) -> Any:
    """Return a URL as it is, and anything else as a path."""
    return value if is_url(value) else Path(value)


class Settings(BaseSettings):
    """Settings of the service; each can be set as ``PERFMODEL_<NAME>`` in the environment.

    ``perfmodel`` puts there what a file of settings and files of secrets say
    (:mod:`perfmodel.cli.running.settings_file`).

    Parameters
    ----------
    listen_host, listen_port : str, int
        Where `perfmodel serve` listens; port 0: a free one.
    workers : int
        Processes that answer.
    models : Path or str
        Folder of trained models, or a URL of ``fsspec``; may be missing, then the analytical model
        answers.
    models_options : dict
        What the file system of such a URL takes besides: credentials, an endpoint, a timeout.
    models_cache : Path or None
        Folder of the local copy of such a store; None: below ``~/.cache/perfmodel``.
    models_poll_s : float
        How often the store is looked at for what shall serve; 0: only when told.
    pinned_models : int
        Versions that are kept in memory for questions that pin one, besides the one that serves.
    database : str
        SQLAlchemy URL of registered graphs.
    max_body_bytes : int
        Largest body of a question.
    max_upload_bytes : int
        Largest body of ``POST /v1/graphs``.
    max_cells : int
        Most cells of one matrix.
    answer_time_s : float
        Processor time that answering one question may take.
    operations_keep_s : float
        Time for which the answer to ``Prefer: respond-async`` is kept.
    observations_keep_s : float
        Age from which an observation counts no longer, and is removed; 0: never.
    drift_poll_s : float
        How often new observations are held against what was answered before; 0: never.
    drift_share : float
        Share of a core that this may take while many wait for it.
    drift_webhook : str
        URL that is told of alarms; nothing: nobody is.
    drift_webhook_private : bool
        Whether that may be an address of a private network, or this machine.
    max_bytes_under_way : int
        Bytes of large bodies that may be under way at a time; past it the answer is 503.
    max_waiting : int
        Questions that may wait for the model; past it the answer is 503. One key may bring half.
    max_waiting_captures : int
        Those that may wait for captures, likewise.
    capture_processes : int
        Processes that capture models and read ONNX files, callers in turn.
    capture_wait_s : float
        How long a capture waits for one of them; then the answer is 503.
    capture_timeout_s, capture_memory_bytes, capture_nodes : float, int, int
        What capturing one model may take, unless its request states less.
    onnx_time_s, onnx_memory_bytes : float, int
        What reading one uploaded ONNX file may take.
    shadow_questions, shadow_questions_bytes : int
        Questions that are kept, those asked last, for versions that answer beside the one that
        serves; 0: none. What they may take together.
    shadow_poll_s : float
        How often it is looked whether such a version has anything to answer; 0: never.
    shadow_memory_bytes : int
        What the process that answers with such a version may take.
    tls_certificate, tls_key : Path or None
        PEM files; with a certificate the service answers over TLS alone. Read at the start.
    kubernetes_nodes : str
        Where the nodes of a cluster are read from: ``"cluster"`` for the one that this process
        runs in, the path of a file that ``kubectl get nodes -o json`` wrote, or nothing.
    kubernetes_accelerators : dict of str to str
        Catalogue name by label value, for products that a cluster names its own way.
    kubernetes_wait_s, kubernetes_admission_wait_s : float
        How long a scheduler, or an admission, waits for a job that is new; then it is answered
        without a prediction.
    keys, audit : Path or None
        Files of the keys and of what administrators did; None: ``keys.json`` beside an SQLite
        database, else in the current folder, and ``audit.jsonl`` beside the keys.
    require_keys : bool
        Ask for a key even if none was made.
    insecure : bool
        Answer everybody while no key was made, on whatever address.
    open_paths : tuple of str
        Paths that are answered without a key, for callers that can show none.
    hosts : tuple of str
        Names besides those of the loopback by which callers and browsers call the service, without
        a port; as long as no key was made, it answers to no other.
    rate_per_s, burst_s : float
        Requests a second of a key without a rate of its own, 0: no limit; seconds of its rate
        that it may use at once.
    data : Path or None
        Folder of public tables that retrainings learn from.
    retrain_here : bool
        Do retrainings that wait in a process beside this one; else `perfmodel retrain work` does,
        on any host.
    retrain_cron : str
        When a model is learned anew by itself, in UTC: ``0 3 * * *``; empty: at no time.
    retrain_after_observations, retrain_after_records : int
        Accepted observations, and finished tasks of campaigns, after which it is; 0: never.
    retrain_on_drift : bool
        Whether an alarm that advises it starts one.
    retrain_least_s : float
        Least time between two retrainings of a model, before the second starts by itself.
    retrain_model, retrain_settings : str, dict
        Which model that is, and settings of such retrainings, as for ``POST /v1/retrain``.
    retraining_profiles : str
        Folders of records that they learn from, with colons between them.
    retrainings : Path or None
        Folder of those that are under way; None: beside an SQLite database, else in the cache.
    retraining_memory_bytes : int
        Memory of all processes of one past which it is ended.
    retraining_processes : int
        Processes that capture and fit.
    retraining_engine, retraining_address : str, str
        What runs captures and fits: ``local`` or ``ray``, and the address of that cluster.
    drain_s : float
        How long the service goes on after SIGTERM and says that it ends, seconds.
    health_host, health_port : str, int
        Where health is answered besides, on a loop of its own; port 0: nowhere.
    log_requests : str
        Which requests the log names: ``all``, ``none``, or ``problems``: those that were refused,
        failed, or took longer than ``slow_request_s``.
    log_level, log_format : str
        ``debug`` to ``error``; ``json``, an object a line, or ``text``.
    """

    model_config = SettingsConfigDict(
        env_prefix="PERFMODEL_",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,
    )

    listen_host: str = "127.0.0.1"
    listen_port: int = Field(default=8000, ge=0, le=65_535)
    workers: int = Field(default=1, ge=1)
    models: Annotated[Path | str, BeforeValidator(_location)] = Path("models")
    models_options: dict[str, Any] = Field(default_factory=dict)
    models_cache: Path | None = None
    models_poll_s: float = Field(default=1.0, ge=0)
    pinned_models: int = Field(default=2, ge=1, le=16)
    database: str = "sqlite:///perfmodel.db"
    max_body_bytes: int = Field(default=16 * _MIB, ge=1024)
    max_upload_bytes: int = Field(default=64 * _MIB, ge=1024)
    max_cells: int = Field(default=1_000_000, ge=1)
    answer_time_s: float = Field(default=120.0, gt=0)
    operations_keep_s: float = Field(default=86_400.0, gt=0)
    observations_keep_s: float = Field(default=0.0, ge=0)
    drift_poll_s: float = Field(default=1.0, ge=0)
    drift_share: float = Field(default=0.25, gt=0, le=1)
    drift_webhook: str = ""
    drift_webhook_private: bool = False
    max_bytes_under_way: int = Field(default=64 * _MIB, ge=1024)
    max_waiting: int = Field(default=64, ge=1)
    max_waiting_captures: int = Field(default=32, ge=1)
    capture_processes: int = Field(default=2, ge=1, le=64)
    capture_wait_s: float = Field(default=8.0, gt=0)
    onnx_time_s: float = Field(default=2.0, gt=0)
    onnx_memory_bytes: int = Field(default=512 * _MIB, ge=64 * _MIB)
    capture_timeout_s: float = Field(default=60.0, gt=0)
    shadow_questions: int = Field(default=1_000, ge=0, le=MOST_QUESTIONS)
    shadow_questions_bytes: int = Field(default=4 * _MIB, ge=1)
    shadow_poll_s: float = Field(default=5.0, ge=0)
    shadow_memory_bytes: int = Field(default=2048 * _MIB, ge=256 * _MIB)
    capture_memory_bytes: int = Field(default=4096 * _MIB, ge=64 * _MIB)
    capture_nodes: int = Field(default=1_000_000, ge=1)
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    kubernetes_nodes: str = ""
    kubernetes_accelerators: dict[str, str] = Field(default_factory=dict)
    kubernetes_wait_s: float = Field(default=0.3, ge=0)
    kubernetes_admission_wait_s: float = Field(default=3.0, ge=0)
    keys: Path | None = None
    audit: Path | None = None
    require_keys: bool = False
    insecure: bool = False
    open_paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    rate_per_s: float = Field(default=0.0, ge=0)
    burst_s: float = Field(default=2.0, gt=0)
    data: Annotated[Path | None, BeforeValidator(lambda value: value or None)] = None
    retrain_here: bool = True
    retrain_cron: str = ""
    retrain_after_observations: int = Field(default=0, ge=0)
    retrain_after_records: int = Field(default=0, ge=0)
    retrain_on_drift: bool = False
    retrain_least_s: float = Field(default=3600.0, ge=0)
    retrain_model: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    retrain_settings: dict[str, Any] = Field(default_factory=dict)
    retraining_profiles: str = "profiles"
    retrainings: Path | None = None
    retraining_memory_bytes: int = Field(default=8 * 1024 * _MIB, ge=64 * _MIB)
    retraining_processes: int = Field(default=2, ge=1)
    retraining_engine: Literal["local", "ray"] = "local"
    retraining_address: str = ""
    drain_s: float = Field(default=2.0, ge=0, le=600)
    health_host: str = "127.0.0.1"
    health_port: int = Field(default=0, ge=0, le=65_535)
    log_requests: Literal["all", "problems", "none"] = "problems"
    slow_request_s: float = Field(default=1.0, gt=0)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"

    @property
    def capture_budget(self) -> CaptureBudget:
        """What capturing one model may take."""
        return CaptureBudget(
            time_s=self.capture_timeout_s,
            memory_bytes=self.capture_memory_bytes,
            nodes=self.capture_nodes,
        )

    @property
    def onnx_budget(self) -> CaptureBudget:
        """What reading one uploaded ONNX file may take."""
        return CaptureBudget(
            time_s=self.onnx_time_s,
            memory_bytes=self.onnx_memory_bytes,
            nodes=self.capture_nodes,
        )

    @property
    def models_folder(self) -> Path:
        """The local folder that models are loaded from."""
        if isinstance(self.models, Path):
            return self.models
        return self.models_cache or cache_folder(self.models)


def read_settings(**stated: Any) -> Settings:
    """Return the settings of the environment, and what is stated besides.

    Raises
    ------
    InvalidInputError
        A value is none that its setting can have; all of them are named.
    """
    try:
        return Settings(**stated)
    except ValidationError as error:
        wrong = [
            f"{_variable(str(each['loc'][0]))}: {each['msg']}; got {each['input']!r}."
            for each in error.errors()
        ]
    except SettingsError:
        wrong = list(_no_json())
    raise InvalidInputError(" ".join(("Settings of the service cannot be read.", *wrong)))


def _variable(name: str) -> str:
    return f"PERFMODEL_{name.upper()}"


def _no_json() -> Iterator[str]:
    """Say which variables should hold JSON and do not; objects may hold secrets: none is shown."""
    for name, field in Settings.model_fields.items():
        variable, kind = _variable(name), get_origin(field.annotation)
        try:
            json.loads(os.environ.get(variable) or "[]")
        except ValueError as error:
            if kind is tuple:
                yield f'{variable} is JSON, as ["one", "two"]; got {os.environ[variable]!r}.'
            elif kind is dict:
                yield f'{variable} is JSON, as {{"name": "value"}}; it is none: {error}.'
