"""Versions of models with a few bytes in them, which no predictor could load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.store.artifacts import write_artifact

FILES: Mapping[str, bytes] = {"a.json": b"{}", "members/m/b.json": b"[1, 2]"}


def version(folder: Path, number: str, **facts: Any) -> Path:
    """Write a version below a local folder."""
    return write_artifact(folder / "default" / number, FILES, {"seed": 0, **facts})
