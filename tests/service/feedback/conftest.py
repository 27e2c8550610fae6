"""A service whose callers have keys; what is beside the benchmarks is on the path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import report_path  # noqa: F401
from reported_service import Reported, reported_service


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[Reported]:
    yield from reported_service(tmp_path)
