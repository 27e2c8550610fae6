"""What the service can be told from outside."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

_MIB = 1024 * 1024


class Settings(BaseSettings):
    """Settings of the service; each can be set as ``PERFMODEL_<NAME>`` in the environment.

    Parameters
    ----------
    models : Path
        Folder of trained models; may be missing, then the analytical model answers.
    database : str
        SQLAlchemy URL of registered graphs.
    max_body_bytes : int
        Largest body of a question.
    max_upload_bytes : int
        Largest body of ``POST /v1/graphs``.
    max_cells : int
        Most cells of one matrix.
    max_waiting : int
        Questions that may wait for a capture or the model; past it the answer is 503.
    onnx_time_s, onnx_memory_bytes : float, int
        What reading one uploaded ONNX file may take.
    capture_timeout_s : float
        What capturing one named model may take.
    """

    model_config = SettingsConfigDict(env_prefix="PERFMODEL_", extra="ignore", frozen=True)

    models: Path = Path("models")
    database: str = "sqlite:///perfmodel.db"
    max_body_bytes: int = Field(default=16 * _MIB, ge=1024)
    max_upload_bytes: int = Field(default=64 * _MIB, ge=1024)
    max_cells: int = Field(default=1_000_000, ge=1)
    max_waiting: int = Field(default=64, ge=1)
    onnx_time_s: float = Field(default=2.0, gt=0)
    onnx_memory_bytes: int = Field(default=512 * _MIB, ge=64 * _MIB)
    capture_timeout_s: float = Field(default=60.0, gt=0)
