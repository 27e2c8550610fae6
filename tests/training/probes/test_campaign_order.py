"""The order of an adaptive campaign: what tells most of what will be asked comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from campaign_world import Bench, CampaignWorld
from migrated import migrated_sqlite

from perfmodel.campaigns.policy import Order
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step
from perfmodel.graph.job import Job
from perfmodel.profilers.worker import Failure
from perfmodel.training.probes.campaign_order import measuring_order, order_campaign
from perfmodel.types import Mode

pytestmark = pytest.mark.usefixtures("captured_here")

TRAINING = [Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=size) for size in (1, 2)]
INFERENCE = [Job(model="zoo/mlp", batch_size=size) for size in (1, 2)]


class ByMode:
    """A device has one coefficient for each mode, as far from known as the prior says."""

    device_prior_ = np.array([1.0, 2.0])
    noise_ = 0.1

    def device_features(self, steps: Sequence[Step]) -> FloatArray:
        rows = [[step.mode is Mode.INFERENCE, step.mode is Mode.TRAINING] for step in steps]
        return np.array(rows, dtype=np.float64)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CampaignWorld]:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    made = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    yield made
    made.close()


def _order(world: CampaignWorld, name: str) -> list[tuple[str, int]]:
    waiting = [task for task in world.tasks(name) if task.state.is_open]
    return [(task.job["mode"], task.job["batch_size"]) for task in waiting]


def test_what_is_least_known_comes_first_and_then_the_other(world: CampaignWorld) -> None:
    name = world.enter([*INFERENCE, *TRAINING], order=Order.ADAPTIVE)
    assert order_campaign(world.campaigns, name, world.device, ByMode()) == 4
    assert [mode for mode, _ in _order(world, name)][:2] == ["training", "inference"]


def test_what_the_operator_cares_about_comes_first(world: CampaignWorld) -> None:
    name = world.enter(
        [*TRAINING, *INFERENCE], order=Order.ADAPTIVE, cares_about=(Job(model="zoo/mlp"),)
    )
    order_campaign(world.campaigns, name, world.device, ByMode())
    assert [mode for mode, _ in _order(world, name)][:2] == ["inference", "inference"]


def test_what_was_measured_on_the_device_counts(world: CampaignWorld) -> None:
    name = world.enter([*TRAINING, *INFERENCE], order=Order.ADAPTIVE)
    world.worker(Bench(), most_tasks=1).run()  # of training
    order_campaign(world.campaigns, name, world.device, ByMode())
    assert [mode for mode, _ in _order(world, name)][0] == "inference"


def test_what_cannot_be_captured_comes_last(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.enter([*INFERENCE, *TRAINING], order=Order.ADAPTIVE)
    monkeypatch.setattr(
        "perfmodel.training.probes.campaign_order.kept_sketches", lambda *a, **k: ({}, {})
    )
    assert order_campaign(world.campaigns, name, world.device, ByMode()) == 0
    assert [mode for mode, _ in _order(world, name)] == ["inference"] * 2 + ["training"] * 2


def test_a_worker_asks_for_the_order_before_the_first_task_and_after_a_failure(
    world: CampaignWorld,
) -> None:
    name = world.enter([*INFERENCE, *TRAINING], order=Order.ADAPTIVE)
    asked: list[str] = []
    bench = Bench(failures={2: Failure(kind="timeout", reason="too long")})

    def order(campaign: str) -> None:
        asked.append(campaign)
        order_campaign(world.campaigns, campaign, world.device, ByMode())

    worker = world.worker(bench)
    worker._on_campaign = order
    report = worker.run()
    assert (report.finished, report.failed) == (2, 2)
    assert asked == [name] * 3
    assert bench.begun[0].mode is Mode.TRAINING
    assert {task.attempts for task in world.tasks(name)} == {1}


def test_nothing_to_measure_is_no_order() -> None:
    assert measuring_order(ByMode(), []) == []
