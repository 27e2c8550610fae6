from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_steps import made_up_profile

from perfmodel.errors import TrainingError
from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.training.placement_fits.fit_data_parallel import fit_constants
from perfmodel.training.placement_rows.data_parallel_rows import (
    DataParallelRow,
    columns,
    groups_of,
)

#: The world that the rows below come from.
TRUE = DataParallelConstants(
    link_slowdown={LinkClass.NVSWITCH: 1.5, LinkClass.PCIE: 1.2, LinkClass.NONE: 1.0},
    crowding=0.4,
    contention=0.7,
    straggler=0.006,
    job_straggler={"made-up-speech": 0.03},
)


def _row(accelerator: str, count: int, job: str, gradient_bytes: float) -> DataParallelRow:
    record = PublishedPlacement(
        job=None,
        job_type=job,
        batch_size=32,
        placement=Placement(nodes=(Node(accelerator=accelerator, count=count),)),
        step_time_s=1.0,
        origin=Origin(source="made up", licence="none"),
        settings={"precision": "fp32", "torch": "1.9.0"},
    )
    profile = made_up_profile(gradient_bytes=gradient_bytes)
    return DataParallelRow(source="made up", record=record, alone_s=0.25, profile=profile)


def _measured(rows: list[DataParallelRow], slower: dict[str, float]) -> list[DataParallelRow]:
    profiles, alone, _ = columns(rows)
    step = (
        DataParallelCells(profiles, alone, groups_of(rows))
        .parts(
            straggler=[TRUE.straggler_of(row.model) for row in rows],
            link_slowdown=[slower.get(row.machine, 1.0) for row in rows],
            constants=TRUE,
        )
        .step_time_s
    )
    return [
        replace(row, record=replace(row.record, step_time_s=float(t)))
        for row, t in zip(rows, step, strict=True)
    ]


def _rows() -> list[DataParallelRow]:
    return [
        _row(accelerator, count, job, size)
        for accelerator in ("A100-SXM4-80GB", "RTX-A6000", "RTX-3090", "RTX-2080Ti")
        for count in (2, 4, 8)
        for job, size in (
            ("made-up-vision", 1e8),
            ("made-up-text", 1.3e9),
            ("made-up-speech", 4e8),
            ("made-up-tables", 2e7),
        )
    ]


def _predicted(rows: list[DataParallelRow], known: DataParallelConstants) -> list[float]:
    profiles, alone, _ = columns(rows)
    spread = [known.straggler_of(row.model) for row in rows]
    parts = DataParallelCells(profiles, alone, groups_of(rows)).parts(
        straggler=spread, constants=known
    )
    return parts.step_time_s.tolist()


def test_steps_of_a_known_world_are_met() -> None:
    rows = _measured(_rows(), {})
    known = fit_constants(rows)
    measured = columns(rows)[2]
    assert _predicted(rows, known) == pytest.approx(measured.tolist(), rel=0.03)
    assert known.straggler_of("made-up-speech") > 2 * known.straggler_of("made-up-vision")
    assert 0.4 < known.contention < 0.9


def test_a_machine_with_broken_links_does_not_bend_the_constants() -> None:
    good = _rows()
    broken = next(row.machine for row in good if row.accelerator == "RTX-3090" and row.count == 4)
    rows = _measured(good, {broken: 12.0})
    known = fit_constants(rows)
    others = [row for row in rows if row.machine != broken]
    errors = np.array(_predicted(others, known)) / columns(others)[2] - 1
    assert np.abs(errors).max() < 0.06


def test_rows_that_share_nothing_teach_nothing() -> None:
    silent = replace(made_up_profile(), gradient_bytes=0.0)
    row = replace(_rows()[0], profile=silent)
    with pytest.raises(TrainingError, match="shares gradients"):
        fit_constants([row])


def test_geforce_cards_go_through_the_host_and_others_do_not() -> None:
    rows = [_row(name, 4, "made-up-vision", 1e8) for name in ("RTX-3090", "RTX-A6000")]
    classes = groups_of(rows).intra_class.tolist()
    assert classes == [LinkClass.NONE, LinkClass.PCIE]
