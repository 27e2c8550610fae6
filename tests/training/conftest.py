"""Tests here read modules that lie beside the benchmarks, and may capture without processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import report_path  # noqa: F401

from perfmodel.graph.job import Job
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.capture_pool import CaptureFailure
from perfmodel.training.captures.capture_worker import sketch_arrays


class _HerePool:
    """Captures in this process what a worker would capture in its own."""

    def __init__(self, folder: Path, **_: Any) -> None:
        self.folder = folder

    def run(self, jobs: Mapping[str, Job]) -> dict[str, CaptureFailure]:
        for key, job in jobs.items():
            SketchFiles(self.folder).write(key, sketch_arrays(job))
        return {}


@pytest.fixture
def captured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave processes out where they are not the point."""
    monkeypatch.setattr("perfmodel.training.captures.kept_sketches.CapturePool", _HerePool)
