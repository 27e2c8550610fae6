from __future__ import annotations

from pathlib import Path

import pytest
from profilers.distributed.test_collective_runs import CORE

from perfmodel.errors import InvalidInputError
from perfmodel.profilers.feeding.loader_runs import LoaderSettings, measure_loaders
from perfmodel.profilers.feeding.stored_samples import SampleForm
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy

TOKENS = SampleForm(kind="tokens", count=8, sequence_length=32)
SHORT = RepeatPolicy(warmup=1, least_samples=4, most_samples=8, budget_s=0.01)


def test_real_loaders_without_and_with_a_worker(tmp_path: Path) -> None:
    records = measure_loaders(
        TOKENS,
        workers=[0, 1],
        batch_size=4,
        host=CORE,
        settings=LoaderSettings(folder=tmp_path, policy=SHORT, timeout_s=60),
    )
    assert [one.workers for one in records] == [0, 1]
    for one in records:
        assert (one.input_kind, one.sequence_length, one.side_pixels) == ("tokens", 32, 0)
        assert one.stored_bytes == 64 and one.tensor_bytes == 256
        assert one.samples_per_second > 0 and one.locality == "memory"
    assert not list(tmp_path.iterdir()), "the samples are removed"


def test_samples_are_read_from_the_store_where_it_is_named(tmp_path: Path) -> None:
    (one,) = measure_loaders(
        TOKENS,
        workers=[0],
        batch_size=4,
        host=CORE,
        settings=LoaderSettings(folder=tmp_path, locality="nfs", policy=SHORT, timeout_s=60),
    )
    assert one.locality == "nfs"


def test_loaders_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="workers must be 0 or more"):
        measure_loaders(TOKENS, workers=[-1], batch_size=4, host=CORE)
    with pytest.raises(InvalidInputError, match="local_ssd"):
        LoaderSettings(locality="tape")
