"""Observations as cells: one voice for each reporter, the newest cells by when they appeared."""

from __future__ import annotations

import dataclasses
import json

import pytest

from perfmodel.retraining.data.observed_cells import cells_of, newest_cells, observations_digest
from perfmodel.store.retraining.observed_data import AcceptedObservation

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 32}


def _seen(number: int, step_time_s: float = 1.0, **facts: object) -> AcceptedObservation:
    one = AcceptedObservation(
        number=number,
        job=json.dumps(JOB),
        placement='"T4"',
        batch_size=32,
        accumulation_steps=1,
        step_time_s=step_time_s,
        reporter="a",
        received_at=f"2026-01-01T00:00:{number:02d}",
    )
    return dataclasses.replace(one, **facts)  # type: ignore[arg-type]


def test_each_reporter_has_one_voice() -> None:
    # One says 9 a hundred times; the medians of the three are 1, 1.2 and 9.
    many = [_seen(i, 9.0, reporter="loud", received_at="2026-01-02") for i in range(10, 110)]
    others = [_seen(1, 1.0), _seen(2, 1.0), _seen(3, 1.2, reporter="b")]
    (cell,), unread = cells_of([*many, *others])
    assert (cell.step_time_s, len(cell.numbers), unread) == (1.2, 103, {})
    assert cell.seen_at == "2026-01-01T00:00:01"
    assert cell.job.batch_size == 32 and cell.accelerator == "T4" and cell.is_bare_step
    # 32 samples in 1.2 s.
    assert cell.published().step_time_s == pytest.approx(1.2)


def test_what_cannot_be_read_is_counted() -> None:
    cells, unread = cells_of([_seen(1, job="{"), _seen(2, placement='"0xT4"'), _seen(3)])
    assert len(cells) == 1
    assert unread == {"JSONDecodeError": 1, "InvalidPlacementError": 1}


@pytest.mark.parametrize(
    ("placement", "job", "bare"),
    [
        ('"T4"', {}, True),
        ('{"nodes": [{"accelerator": "T4", "count": 1}], "fraction": 1}', {}, True),
        ('"2xT4"', {}, False),
        ('{"nodes": [{"accelerator": "T4"}], "fraction": 0.5}', {}, False),
        ('{"nodes": [{"accelerator": "T4"}], "power_limit_w": 100}', {}, False),
        ('"T4"', {"script": True}, False),
        ('"T4"', {"model": None, "job_type": "LM"}, False),
    ],
)
def test_bare_steps_of_one_accelerator_are_learned_from(
    placement: str, job: dict[str, object], bare: bool
) -> None:
    stated = {name: value for name, value in {**JOB, **job}.items() if value is not None}
    (cell,), _ = cells_of([_seen(1, placement=placement, job=json.dumps(stated))])
    assert cell.is_bare_step is bare


def test_the_newest_cells_are_those_that_appeared_last() -> None:
    first = [_seen(number, batch_size=number + 1) for number in range(10)]
    # The oldest cell goes on being reported, which makes it no newer.
    again = [_seen(30, batch_size=1), _seen(31, batch_size=1)]
    cells, _ = cells_of([*again, *first])
    assert [cell.job.batch_size for cell in newest_cells(cells)] == [9, 10]
    assert newest_cells(cells[:2]) == []


def test_a_digest_depends_on_what_was_seen_alone() -> None:
    seen = [_seen(1), _seen(2, 2.0)]
    assert observations_digest(seen) == observations_digest(seen[::-1])
    assert observations_digest(seen) != observations_digest([seen[0], _seen(2, 2.1)])
