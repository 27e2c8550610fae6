from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.workload import Workload
from perfmodel.placement.job_load import (
    LEAST_SHARE,
    JobLoad,
    Loads,
    device_share,
    job_type_parts,
    load_of,
    share_from_batches,
    share_from_kinds,
)
from perfmodel.types import Compiler, Mode
from tests.synthetic_workloads import DEVICE, mlp


def _workload(compiler: Compiler = Compiler.EAGER) -> Workload:
    return Workload(
        graph=mlp(64, [256, 512, 10], "relu", training=True),
        accelerator=DEVICE,
        mode=Mode.TRAINING,
        batch_size=64,
        compiler=compiler,
    )


def test_a_step_at_twice_its_roofline_keeps_the_accelerator_busy() -> None:
    workload = _workload()
    bound_s = float(node_roofline(workload).roofline_s.sum())
    load = load_of(workload, 2 * bound_s)
    assert load.device_share == 1.0 and load.batch_size == 64
    assert load.compute_bound_share + load.memory_bound_share == pytest.approx(1.0)


def test_what_launches_take_the_accelerator_does_not_work() -> None:
    # 1,000 launches at 8 us take 8 ms of 10 ms; the roofline time explains 1 ms / 0.5 = 2 ms.
    share = device_share(np.array([10e-3]), np.array([1e-3]), np.array([1000.0]))
    assert share[0] == pytest.approx(0.2)


def test_the_share_rises_with_the_work_and_falls_with_the_launches() -> None:
    step = np.full(3, 10e-3)
    by_work = device_share(step, np.array([1e-3, 2e-3, 4e-3]), np.full(3, 1e3))
    by_launches = device_share(step, np.full(3, 1e-3), np.array([100.0, 500.0, 1000.0]))
    assert np.all(np.diff(by_work) > 0) and np.all(np.diff(by_launches) < 0)
    assert device_share(np.array([1.0]), np.array([0.0]), np.array([1e6]))[0] == LEAST_SHARE


def test_a_compiler_launches_less() -> None:
    slow_s = 2e-3
    eager = load_of(_workload(), slow_s).device_share
    assert load_of(_workload(Compiler.INDUCTOR), slow_s).device_share >= eager


def test_a_time_that_no_batch_changes_is_the_hosts() -> None:
    batches = np.array([8.0, 16.0, 32.0])
    assert share_from_batches(batches, np.full(3, 0.1)).tolist() == [LEAST_SHARE] * 3
    assert share_from_batches(batches, batches * 0.01).tolist() == pytest.approx([1.0] * 3)


def test_both_kinds_of_accelerator_say_the_same() -> None:
    # 1 s of host and 8 s of device there, 1 s and 2 s here: four times as fast.
    there, here = np.array([9.0]), np.array([3.0])
    assert share_from_kinds(there, here, 4.0)[0] == pytest.approx(8 / 9)
    assert share_from_kinds(here, there, 1 / 4)[0] == pytest.approx(2 / 3)


def test_columns_keep_the_order() -> None:
    loads = Loads.of([JobLoad(step_time_s=0.1, batch_size=8), JobLoad(step_time_s=0.2, family="x")])
    assert loads.step_time_s.tolist() == [0.1, 0.2] and loads.families == (None, "x")
    assert loads.log2_batch.tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_time_s": 0.0},
        {"step_time_s": float("nan")},
        {"step_time_s": 1.0, "device_share": 0.0},
        {"step_time_s": 1.0, "device_share": 1.5},
        {"step_time_s": 1.0, "compute_bound_share": 0.7, "memory_bound_share": 0.7},
        {"step_time_s": 1.0, "batch_size": 0},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        JobLoad(**wrong)  # type: ignore[arg-type]


def test_an_empty_job_type_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        job_type_parts(" ")
