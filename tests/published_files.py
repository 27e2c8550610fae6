"""Files of published measurements, where a machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def published(name: str) -> Path:
    """Return a file below ``PERFMODEL_DATA``, or skip."""
    folder = os.environ.get("PERFMODEL_DATA")
    if folder is None:
        pytest.skip("PERFMODEL_DATA names no folder of public tables")
    return Path(folder) / name
