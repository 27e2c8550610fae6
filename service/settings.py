"""What the service can be told from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from perfmodel.registry.file_store import is_url
from perfmodel.registry.mirror import cache_folder

_MIB = 1024 * 1024


def _location(value: Any) -> Any:
    """Return a URL as it is, and anything else as a path."""
    return value if is_url(value) else Path(value)


class Settings(BaseSettings):
    """Settings of the service; each can be set as ``PERFMODEL_<NAME>`` in the environment.

    Parameters
    ----------
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
    operations_keep_s : float
        Time for which the answer to ``Prefer: respond-async`` is kept.
    observations_keep_s : float
        Age from which an observation counts no longer, and is removed; 0: never.
    max_waiting : int
        Questions that may wait for a capture or the model; past it the answer is 503.
    onnx_time_s, onnx_memory_bytes : float, int
        What reading one uploaded ONNX file may take.
    capture_timeout_s : float
        What capturing one named model may take.
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
    rate_per_s, burst_s : float
        Requests a second of a key without a rate of its own, 0: no limit; seconds of its rate
        that it may use at once.
    data : Path or None
        Folder of public tables that retrainings learn from.
    retrain_here : bool
        Do retrainings that wait in a process beside this one; else `perfmodel retrain work` does,
        on any host.
    retraining_profiles : str
        Folders of records that they learn from, with colons between them.
    retrainings : Path or None
        Folder of those that are under way; None: beside an SQLite database, else in the cache.
    retraining_memory_bytes : int
        Memory of all processes of one past which it is ended.
    retraining_processes : int
        Processes that capture and fit.
    log_requests : str
        Which requests the log names: ``all``, ``none``, or ``problems``: those that were refused,
        failed, or took longer than ``slow_request_s``.
    log_level, log_format : str
        ``debug`` to ``error``; ``json``, an object a line, or ``text``.
    """

    model_config = SettingsConfigDict(env_prefix="PERFMODEL_", extra="ignore", frozen=True)

    models: Annotated[Path | str, BeforeValidator(_location)] = Path("models")
    models_options: dict[str, Any] = Field(default_factory=dict)
    models_cache: Path | None = None
    models_poll_s: float = Field(default=1.0, ge=0)
    pinned_models: int = Field(default=2, ge=1, le=16)
    database: str = "sqlite:///perfmodel.db"
    max_body_bytes: int = Field(default=16 * _MIB, ge=1024)
    max_upload_bytes: int = Field(default=64 * _MIB, ge=1024)
    max_cells: int = Field(default=1_000_000, ge=1)
    operations_keep_s: float = Field(default=86_400.0, gt=0)
    observations_keep_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    max_waiting: int = Field(default=64, ge=1)
    onnx_time_s: float = Field(default=2.0, gt=0)
    onnx_memory_bytes: int = Field(default=512 * _MIB, ge=64 * _MIB)
    capture_timeout_s: float = Field(default=60.0, gt=0)
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
    rate_per_s: float = Field(default=0.0, ge=0)
    burst_s: float = Field(default=2.0, gt=0)
    data: Annotated[Path | None, BeforeValidator(lambda value: value or None)] = None
    retrain_here: bool = True
    retraining_profiles: str = "profiles"
    retrainings: Path | None = None
    retraining_memory_bytes: int = Field(default=8 * 1024 * _MIB, ge=64 * _MIB)
    retraining_processes: int = Field(default=2, ge=1)
    log_requests: Literal["all", "problems", "none"] = "problems"
    slow_request_s: float = Field(default=1.0, gt=0)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"

    @property
    def models_folder(self) -> Path:
        """The local folder that models are loaded from."""
        if isinstance(self.models, Path):
            return self.models
        return self.models_cache or cache_folder(self.models)
