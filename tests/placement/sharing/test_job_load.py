from __future__ import annotations

import numpy as np
import pytest
from synthetic_workloads import DEVICE, mlp

from perfmodel.errors import InvalidInputError
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.workload import Workload
from perfmodel.placement.sharing.job_load import (
    LEAST_SHARE,
    JobLoad,
    Loads,
    device_share,
    job_type_parts,
    load_of,
    share_from_batches,
    share_from_kinds,
)
from perfmodel.types import Mode


def _workload() -> Workload:
    return Workload(
        graph=mlp(64, [256, 512, 10], "relu", training=True),
        accelerator=DEVICE,
        mode=Mode.TRAINING,
        batch_size=64,
    )


def test_the_load_of_a_step_by_hand() -> None:
    workload = _workload()
    roofline = node_roofline(workload)
    total_s = float(roofline.roofline_s.sum())
    # Four times the roofline time: 1.15 * 0.25 / (0.25 + 0.15).
    load = load_of(workload, 4 * total_s, family="LM")
    assert load.device_share == pytest.approx(1.15 * 0.25 / 0.4)
    by_arithmetic = roofline.roofline_s[roofline.compute_s > roofline.memory_s].sum() / total_s
    assert load.compute_bound_share == pytest.approx(by_arithmetic)
    assert load.memory_bound_share == pytest.approx(1 - by_arithmetic)
    assert (load.batch_size, load.family) == (64, "LM")


def test_the_share_rises_with_the_work_up_to_the_whole_step() -> None:
    share = device_share(np.full(5, 10e-3), np.array([0.0, 1e-3, 5e-3, 10e-3, 20e-3]))
    assert np.all(np.diff(share[:4]) > 0)
    assert share[0] == LEAST_SHARE and share[3] == share[4] == 1.0


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
    assert loads.step_time_s.tolist() == [0.1, 0.2] and loads.families.tolist() == ["", "x"]
    assert loads.log2_batch.tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_time_s": 0.0},
        {"step_time_s": float("nan")},
        {"step_time_s": 1.0, "device_share": 0.0},
        {"step_time_s": 1.0, "device_share": 1.5},
        {"step_time_s": 1.0, "compute_bound_share": 0.7, "memory_bound_share": 0.7},
        {"step_time_s": 1.0, "at_peak_share": 0.0},
        {"step_time_s": 1.0, "batch_size": 0},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        JobLoad(**wrong)  # type: ignore[arg-type]


def test_an_empty_job_type_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        job_type_parts(" ")


def test_what_a_busy_accelerator_does_below_its_peaks_is_counted() -> None:
    workload = _workload()
    total_s = float(node_roofline(workload).roofline_s.sum())
    # It works 1.15 * 0.25 / 0.4 = 0.72 of the step, and 0.25 of the step would do at the peaks.
    assert load_of(workload, 4 * total_s).at_peak_share == pytest.approx(0.25 / 0.71875)
    # A step at its roofline, or below it, is all work at the peaks.
    assert load_of(workload, total_s).at_peak_share == pytest.approx(1.0)
    assert load_of(workload, total_s / 2).at_peak_share == 1.0
