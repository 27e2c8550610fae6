"""Predictions that are remembered, and made again when they are old."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cluster_bodies import job_text
from fastapi import FastAPI

from service.adapters.kubernetes.pods import JobName
from service.adapters.kubernetes.rates import FRESH_S, Cell, Device, RateBook

NAME = JobName(text=job_text("timm/resnet18", batch_size=5))
T4, H100 = Device(name="T4", count=1), Device(name="H100-SXM5-80GB", count=1)


@pytest.fixture
def asked(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the placements of each call of the estimator."""
    estimator = app.state.desk.estimator
    matrix, calls = estimator.matrix, []

    def counted(jobs: Any, placements: Any) -> Any:
        calls.append(len(placements))
        return matrix(jobs, placements)

    monkeypatch.setattr(estimator, "matrix", counted)
    return calls


def test_each_device_is_asked_about_once(app: FastAPI, asked: list[int]) -> None:
    async def ask() -> None:
        book = RateBook(app.state.desk)
        first = dict(await book.cells(NAME, [T4], wait_s=10))
        both = await book.cells(NAME, [T4, H100], wait_s=10)
        await book.cells(NAME, [H100], wait_s=10)
        assert both[T4] == first[T4]
        cell = both[H100]
        assert isinstance(cell, Cell)
        assert cell.samples_per_second > 0

    asyncio.run(ask())
    assert asked == [1, 1]


def test_callers_at_the_same_time_share_one_prediction(app: FastAPI, asked: list[int]) -> None:
    async def ask() -> None:
        book = RateBook(app.state.desk)
        await asyncio.gather(*(book.cells(NAME, [T4], wait_s=10) for _ in range(20)))

    asyncio.run(ask())
    assert asked == [1]


def test_what_is_old_is_repeated_at_once_and_made_again(app: FastAPI, asked: list[int]) -> None:
    now = [100.0]

    async def ask() -> None:
        book = RateBook(app.state.desk, clock=lambda: now[0])
        await book.cells(NAME, [T4, H100], wait_s=10)
        now[0] += FRESH_S / 2
        await book.cells(NAME, [T4], wait_s=0)
        assert asked == [2]
        now[0] += FRESH_S
        assert T4 in await book.cells(NAME, [T4], wait_s=0)
        while len(asked) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(ask(), timeout=20))
    assert asked == [2, 2]


def test_one_bad_device_costs_its_own_cell_only(app: FastAPI) -> None:
    async def ask() -> None:
        book = RateBook(app.state.desk)
        cells = await book.cells(NAME, [T4, Device(name="T5", count=1)], wait_s=10)
        assert cells[T4] is not None
        assert cells[Device(name="T5", count=1)] is None

    asyncio.run(ask())
