from __future__ import annotations

from pathlib import Path

import pytest
from profilers.distributed.test_collective_runs import CORE

from perfmodel.errors import MeasurementError
from perfmodel.graph.job import Job
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy
from perfmodel.profilers.sharing.neighbour_runs import SharingSettings, measure_pair, sharing_of
from perfmodel.types import Mode

SHORT = SharingSettings(
    policy=RepeatPolicy(warmup=1, least_samples=3), window_s=0.05, timeout_s=120, threads=1
)


def _job(batch_size: int, mode: Mode) -> Job:
    return Job(
        model="zoo/lstm-lm",
        model_kwargs={"hidden_size": 8},
        mode=mode,
        batch_size=batch_size,
        sequence_length=4,
    )


def test_two_real_jobs_alone_and_at_once() -> None:
    first, second = _job(1, Mode.INFERENCE), _job(4, Mode.TRAINING)
    records = measure_pair(first, second, accelerator=CORE, settings=SHORT)
    told = [(r.job["batch_size"], r.neighbour and r.neighbour["batch_size"]) for r in records]
    assert told == [(1, None), (4, None), (1, 4), (4, 1)]
    for alone, beside in zip(records[:2], records[2:], strict=True):
        assert alone.alone_s is None
        assert beside.alone_s == pytest.approx(alone.repeats.time_s)
        assert len(beside.repeats.samples_s) >= 3 and beside.sharing == "cores"


def test_a_job_that_cannot_be_built_ends_its_pair() -> None:
    unknown = Job(model="zoo/no-such-model", mode=Mode.INFERENCE, batch_size=1)
    with pytest.raises(MeasurementError, match="job 1 failed: Unknown model 'zoo/no-such-model'"):
        measure_pair(_job(1, Mode.INFERENCE), unknown, accelerator=CORE, settings=SHORT)


def test_a_gpu_is_shared_by_turns_without_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert sharing_of("gpu") == "time_slicing"
    (tmp_path / "control").touch()
    assert sharing_of("gpu:1") == "mps"
    assert sharing_of("cpu") == "cores"
