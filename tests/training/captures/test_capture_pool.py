"""Many captures: what cannot be captured is said, and ends none of the others."""

from __future__ import annotations

from pathlib import Path

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.graph.job import Job
from perfmodel.training.captures.capture_pool import CapturePool


def test_a_job_that_nobody_could_ask_for_ends_no_other(tmp_path: Path) -> None:
    jobs = {
        "much": Job(model="zoo/operator-linear", batch_size=18_000_000),
        "one": Job(model="zoo/operator-linear", batch_size=1),
    }
    failures = CapturePool(tmp_path, engine=LocalEngine(workers=1)).run(jobs)
    assert set(failures) == {"much"}
    assert failures["much"].reason == "InvalidInputError"
    assert "18000000" in failures["much"].message
    assert [path.stem for path in tmp_path.rglob("*.npz")] == ["one"]
