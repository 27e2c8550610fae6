from __future__ import annotations

from typing import Any

import pytest

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, MeasurementError
from perfmodel.profilers.distributed import collective_runs
from perfmodel.profilers.distributed.collective_runs import (
    COLLECTIVES,
    CollectiveCell,
    measure_collectives,
    usual_cells,
)
from perfmodel.profilers.distributed.ranks import RankSettings, cores_of
from perfmodel.profilers.processes.cpu_use import CpuUse
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy

CORE = AcceleratorSpec(
    name="cpu-made-up-1c", kind="cpu", vendor="Made-up", architecture="x86_64",
    form_factor="host", year=None, peak_flops={"fp32": 5e10}, memory_bytes=8e9,
    bandwidth_bytes_per_s=8e9, core_count=1,
)  # fmt: skip
SHORT = RankSettings(
    policy=RepeatPolicy(warmup=1, least_samples=3, most_samples=3, budget_s=0.01), timeout_s=60
)


def test_two_real_ranks_exchange_every_operation() -> None:
    cells = usual_cells("cpu", sizes=[4096, 1 << 20])
    told: list[str] = []
    records = measure_collectives(
        cells,
        2,
        accelerator=CORE,
        settings=SHORT,
        on_record=lambda record: told.append(record.collective),
    )
    assert [(r.collective, r.size_bytes) for r in records] == [
        (cell.collective, cell.size_bytes) for cell in cells
    ]
    assert told == [cell.collective for cell in cells]
    assert set(told) == set(COLLECTIVES)
    one = records[0]
    assert one.backend.startswith("gloo ") and one.dtype == "float32" and one.ranks == 2
    assert len(one.repeats.samples_s) == 3 and one.repeats.time_s > 0
    assert one.provenance.accelerator["name"] == "cpu-made-up-1c"


def test_the_rank_that_took_longest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    use = CpuUse(wall_s=1.0, busy_s=2.0, own_s=1.0)

    def replayed(*_: Any) -> list[Any]:
        ranks = ([1e-3, 2e-3, 3e-3], [2e-3, 1e-3, 4e-3])
        return [
            [
                collective_runs._RankTimes(
                    size_bytes=4096, backend="nccl 2.27.3", samples_s=tuple(of_rank), use=use
                )
            ]
            for of_rank in ranks
        ]

    monkeypatch.setattr(collective_runs, "run_ranks", replayed)
    cell = CollectiveCell(collective="all_gather", size_bytes=4096, dtype="bfloat16")
    (record,) = measure_collectives(
        [cell], 2, accelerator=CORE, settings=RankSettings(device="gpu")
    )
    assert record.repeats.samples_s == (2e-3, 2e-3, 4e-3)
    assert record.repeats.time_s == 2e-3
    assert record.cores_per_rank is None and record.backend == "nccl 2.27.3"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"collective": "reduce"}, "all_reduce"),
        ({"dtype": "float8"}, "bfloat16"),
        ({"size_bytes": 0}, "1 or more"),
    ],
)
def test_what_no_rank_can_do_is_refused_before_any_starts(
    changed: dict[str, Any], said: str
) -> None:
    fields = {"collective": "all_reduce", "size_bytes": 8, "dtype": "float32"}
    cell = CollectiveCell(**{**fields, **changed})
    with pytest.raises(InvalidInputError, match=said):
        measure_collectives([cell], 2, accelerator=CORE, settings=SHORT)


def test_one_rank_is_no_collective_and_another_device_none_of_ours() -> None:
    with pytest.raises(InvalidInputError, match="2 ranks or more"):
        measure_collectives([], 1, accelerator=CORE, settings=SHORT)
    with pytest.raises(InvalidInputError, match="cpu, gpu"):
        RankSettings(device="tpu")


@pytest.mark.skipif("__import__('torch').accelerator.is_available()", reason="has an accelerator")
def test_an_accelerator_that_is_not_there_is_named() -> None:
    cell = CollectiveCell(collective="all_reduce", size_bytes=8, dtype="float32")
    with pytest.raises(MeasurementError, match="rank 0 failed: PyTorch .* sees 0 accelerators"):
        measure_collectives(
            [cell], 2, accelerator=CORE, settings=RankSettings(device="gpu", timeout_s=60)
        )


def test_more_ranks_than_cores_go_round() -> None:
    assert [cores_of(rank, 1, usable=(0, 1)) for rank in range(3)] == [(0,), (1,), (0,)]
    assert cores_of(1, 3, usable=(0, 1, 2, 3)) == (0, 1, 3)
