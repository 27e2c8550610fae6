"""Made files of other profilers are what the readers take them for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from trace_report.made_formats import WRITERS

from perfmodel.traces.formats.registry import read_trace


@pytest.mark.parametrize("name", WRITERS)
def test_a_made_file_is_of_its_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / "made"
    events = WRITERS[name](path, 100_000)
    trace = read_trace(path)
    assert trace.format == name
    if name == "nsys-sqlite":
        # A kernel, its call, and a range around every fourth: its operator.
        assert events == 2 * len(trace.kernels) + len(trace.operators)
        assert (trace.kernels.operator == np.arange(len(trace.kernels)) // 4).all()
    else:
        assert events == len(trace.kernels) + len(trace.operators)
