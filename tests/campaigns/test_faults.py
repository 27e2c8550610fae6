"""What may befall a worker: devices, disks, databases and clocks that fail."""

from __future__ import annotations

import errno
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from campaign_world import Bench, CampaignWorld, jobs
from jumping_clock import jump as jump_by
from waiting import until

from perfmodel.campaigns import lease_keeper
from perfmodel.campaigns.events import WorkEventKind
from perfmodel.errors import MeasurementError, StoreError
from perfmodel.graph.job import Job
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.worker import Failure
from perfmodel.store import durable
from perfmodel.store.campaigns.task_store import Wanted


def test_a_device_that_disappears_gives_its_task_back(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(3))
    there = [True]
    device = replace(world.device, is_present=lambda: there[0])

    def vanish(job: Job) -> None:
        there[0] = job.batch_size < 2

    lost = Failure(kind="error", reason="CUDA error: unknown error")
    with pytest.raises(MeasurementError, match="here/gpu-90/gpu-test has disappeared .*put back"):
        world.worker(Bench(before=vanish, failures={2: lost}), device=device).run()
    assert world.states(campaign) == ["done", "waiting", "waiting"]
    # It was not the task's fault: no attempt is counted.
    assert [task.attempts for task in world.tasks(campaign)] == [1, 0, 0]
    assert world.worker(Bench()).run().finished == 2


def test_a_full_disk_loses_nothing_that_is_finished(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.enter(jobs(3))
    whole, written = durable._sync, []

    def full(path: Path, flags: int) -> None:
        written.append(path)
        if len(written) > 2:  # a file and its folder
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, flags)

    monkeypatch.setattr(durable, "_sync", full)
    with pytest.raises(StoreError, match="No space left on device. Free some space"):
        world.worker(Bench()).run()
    assert world.states(campaign) == ["done", "waiting", "waiting"]
    assert [step.batch_size for step in world.profiles.steps()] == [1]
    monkeypatch.undo()
    again = Bench()
    assert world.worker(again).run().finished == 2
    assert [job.batch_size for job in again.begun] == [2, 3]


def test_a_full_disk_while_records_are_kept_for_good_is_no_loss(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.enter(jobs(2))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(world.profiles), "_write_tables", full)
    with pytest.raises(StoreError, match="No space left"):
        world.worker(Bench()).run()
    assert len(world.profiles.steps()) == 2
    monkeypatch.undo()
    assert world.worker(Bench()).run().ended == 0
    assert not list(world.profiles.folder.rglob("*.json.gz"))
    assert len(world.profiles.steps()) == 2


def test_a_database_that_is_away_when_a_task_ends_is_asked_again(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.enter(jobs(1))
    worker = world.worker(Bench())
    finish, asked = worker._tasks.finish, []

    def away(*args: object, **kwargs: object) -> bool:
        asked.append(1)
        if len(asked) < 3:
            raise StoreError("The database cannot be used.")
        return finish(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(worker._tasks, "finish", away)
    assert worker.run().finished == 1
    assert (len(asked), world.states(campaign)) == (3, ["done"])


def test_a_database_that_stays_away_ends_the_worker_but_not_what_it_measured(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.enter(jobs(1))
    worker = world.worker(Bench(), patience_s=0.05)

    def away(*args: object, **kwargs: object) -> bool:
        raise StoreError("The database cannot be used.")

    monkeypatch.setattr(worker._tasks, "finish", away)
    with pytest.raises(StoreError):
        worker.run()
    bench = Bench()
    report = world.worker(bench).run()
    assert (report.held, bench.begun, world.states(campaign)) == (1, [], ["done"])


def test_an_interrupted_worker_gives_back_all_that_it_has_begun(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(5))

    def interrupt(job: Job) -> None:
        if job.batch_size == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.worker(Bench(before=interrupt), beside=2).run()
    assert world.states(campaign) == ["done", *["waiting"] * 4]
    assert [task.attempts for task in world.tasks(campaign)] == [1, 0, 0, 0, 0]
    kinds = Counter(event.kind for event in world.events)
    assert kinds == {
        WorkEventKind.STARTED: 4, WorkEventKind.FINISHED: 1, WorkEventKind.PUT_BACK: 3,
    }  # fmt: skip


def test_an_interrupted_worker_gives_its_task_back(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(2))

    def interrupt(job: Job) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.worker(Bench(before=interrupt)).run()
    assert world.states(campaign) == ["waiting", "waiting"]
    assert [event.kind for event in world.events] == [
        WorkEventKind.STARTED, WorkEventKind.PUT_BACK,
    ]  # fmt: skip


@pytest.mark.parametrize("by_s", [86_400.0, -86_400.0])
def test_a_clock_that_jumps_lets_no_task_end_twice(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    campaign = world.enter(jobs(1))
    first, second = Bench(), Bench()

    def jump(job: Job) -> None:
        jump_by(monkeypatch, by_s)
        # A second worker finds the lease run out, or given for a time that no lease is given for.
        other = replace(world.device, device="gpu:91")
        assert world.worker(second, device=other).run().finished == 1

    first.before = jump
    report = world.worker(first, lease_s=3600.0).run()
    assert (report.finished, report.superseded) == (0, 1)
    assert len(second.begun) == 1
    task = world.tasks(campaign)[0]
    assert (task.state.value, task.attempts) == ("done", 2)
    assert task.machine == "here/gpu-91/gpu-test"
    assert len(world.profiles.steps()) == 1


def test_the_clock_of_a_worker_may_jump_as_it_likes(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.enter(jobs(1))
    renewed: list[object] = []
    anything = Wanted(accelerators=["any"])

    def jump(job: Job) -> None:
        monkeypatch.setattr(time, "time", lambda: 0.0)
        # Two thirds of a lease pass for the database, and again, and again.
        for _ in range(3):
            jump_by(monkeypatch, 40.0)
            before = len(renewed)
            until(lambda before=before: len(renewed) > before + 1)
            assert world.task_store.claim("other", anything, lease_s=60.0) is None
        assert all(renewed)

    class Hasty(threading.Event):
        """Waits no longer than this whatever it is told."""

        def wait(self, timeout: float | None = None) -> bool:
            return super().wait(0.01)

    hasty = SimpleNamespace(Event=Hasty, Thread=threading.Thread)
    monkeypatch.setattr(lease_keeper, "threading", hasty)
    worker = world.worker(Bench(before=jump), lease_s=60.0)
    renew = worker._tasks.renew

    def counted(*args: Any, **options: Any) -> bool:
        held = renew(*args, **options)
        renewed.append(held)
        return held

    monkeypatch.setattr(worker._tasks, "renew", counted)
    worker.run()
    assert world.states(campaign) == ["done"]


def test_limits_of_a_campaign_reach_the_measurement(world: CampaignWorld) -> None:
    world.enter(jobs(1), timeout_s=7.0, memory_limit_bytes=1e9, threads=2)
    seen: list[MeasureSettings] = []
    bench = Bench()

    def measure(job: Job, spec: object, settings: MeasureSettings) -> object:
        seen.append(settings)
        return bench(job, world.device.spec, settings)

    world.worker(measure).run()
    assert [(s.timeout_s, s.memory_limit_bytes, s.threads) for s in seen] == [(7.0, 1e9, 2)]
