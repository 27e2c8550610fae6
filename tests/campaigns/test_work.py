"""What a worker does with the tasks of campaigns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from campaign_world import SPEC, Bench, CampaignWorld, jobs
from waiting import PATIENCE_S, until

from perfmodel.campaigns import work
from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.events import WorkEventKind
from perfmodel.campaigns.policy import Order
from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.profilers.device_lock import machine_lock
from perfmodel.profilers.worker import Failure
from perfmodel.store.campaigns.campaign_records import TaskState
from perfmodel.store.campaigns.task_store import Wanted


def test_every_workload_is_measured_once_and_kept(world: CampaignWorld) -> None:
    campaign = world.enter([*jobs(3), *jobs(2)])
    report = world.worker(Bench()).run()
    assert (report.finished, report.held, report.failed) == (3, 0, 0)
    tasks = world.tasks(campaign)
    assert [task.state for task in tasks] == [TaskState.DONE] * 3
    assert [task.outcome and task.outcome["step_time_s"] for task in tasks] == [0.001, 0.002, 0.003]
    assert sorted(step.batch_size for step in world.profiles.steps()) == [1, 2, 3]
    assert list(world.profiles.folder.rglob("steps-*.parquet"))
    assert not list(world.profiles.folder.rglob("*.json.gz"))


def _taking_s(seconds: float, monkeypatch: pytest.MonkeyPatch) -> Callable[[Job], None]:
    """Return a measurement that takes so long, by a clock that stands still otherwise."""
    now_s = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=time.sleep)
    monkeypatch.setattr(work, "time", clock)

    def measure(job: Job) -> None:
        now_s[0] += seconds

    return measure


def test_what_the_folder_holds_is_not_measured_again(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.enter(jobs(2))
    world.worker(Bench()).run()
    campaign = world.enter(jobs(3))
    bench = Bench(before=_taking_s(3.0, monkeypatch))
    report = world.worker(bench).run()
    assert (report.finished, report.held) == (1, 2)
    assert [job.batch_size for job in bench.begun] == [3]
    assert world.states(campaign) == ["done"] * 3
    found = world.campaigns.find(campaign)
    assert found is not None and found.spent_s == 3.0


def test_a_failure_is_kept_with_its_reason_and_the_others_go_on(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(3))
    bench = Bench(failures={2: Failure(kind="timeout", reason="No result within 120 s.")})
    report = world.worker(bench).run()
    assert (report.finished, report.failed) == (2, 1)
    assert world.states(campaign) == ["done", "failed", "done"]
    assert world.tasks(campaign)[1].reason == "timeout: No result within 120 s."
    assert len(world.profiles.failures(SPEC.name)) == 1


def test_a_worker_takes_what_its_device_can_do(world: CampaignWorld) -> None:
    world.enter(jobs(1), accelerators=["gpu-test", "cpu", "any"])
    world.enter(jobs(2), accelerators=["gpu"])
    cpu = CampaignDevice(spec=replace(SPEC, name="cpu-test", kind="cpu"), host="there")
    on_cpu = Bench()
    # Its kind, and what anybody may measure, which is the same job: held from the first.
    assert world.worker(on_cpu, device=cpu).run().ended == 2
    assert [job.batch_size for job in on_cpu.begun] == [1]
    on_gpu = Bench()
    assert world.worker(on_gpu).run().ended == 3
    assert [job.batch_size for job in on_gpu.begun] == [1, 2]


def test_no_task_is_begun_once_the_time_is_spent(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.enter(jobs(5), budget_s=5.0)
    report = world.worker(Bench(before=_taking_s(3.0, monkeypatch))).run()
    # 3 s are less than 5 s, 6 s are not.
    assert report.finished == 2
    found = world.campaigns.find(campaign)
    assert found is not None and found.is_spent
    assert world.states(campaign) == ["done", "done", "waiting", "waiting", "waiting"]


def test_tasks_are_begun_beside_the_one_that_runs(
    world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = world.enter(jobs(4))
    bench = Bench(before=_taking_s(3.0, monkeypatch))
    assert world.worker(bench, beside=2).run().finished == 4
    assert [job.batch_size for job in bench.begun] == [1, 2, 3, 4]
    begun, ended = WorkEventKind.STARTED, WorkEventKind.FINISHED
    assert [event.kind for event in world.events] == [
        begun, begun, begun, ended, begun, ended, ended, ended,
    ]  # fmt: skip
    # What overlaps counts once.
    assert [task.elapsed_s for task in world.tasks(campaign)] == [3.0] * 4


def test_of_equal_jobs_one_is_measured_although_they_overlap(world: CampaignWorld) -> None:
    world.enter(jobs(1))
    world.enter(jobs(1), accelerators=["gpu"])
    bench = Bench()
    report = world.worker(bench, beside=2).run()
    assert (report.finished, report.held, len(bench.begun)) == (1, 1, 1)


@pytest.mark.parametrize("beside", [0, 2])
def test_a_worker_ends_after_as_many_tasks_as_asked_for(world: CampaignWorld, beside: int) -> None:
    campaign = world.enter(jobs(3))
    assert world.worker(Bench(), most_tasks=2, beside=beside).run().ended == 2
    assert world.states(campaign) == ["done", "done", "waiting"]


def test_what_is_measured_of_a_cancelled_campaign_is_dropped(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(3))
    bench = Bench(before=lambda job: world.campaigns.cancel(campaign) and None)
    report = world.worker(bench).run()
    assert (report.finished, report.superseded) == (0, 1)
    assert world.states(campaign) == ["cancelled"] * 3
    assert not world.profiles.steps()


def test_several_workers_share_a_campaign(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(12))
    benches = [Bench(before=lambda job: time.sleep(0.01)) for _ in range(3)]
    workers = [
        world.worker(
            bench, device=CampaignDevice(spec=SPEC, host="here", device=f"gpu:{91 + number}")
        )
        for number, bench in enumerate(benches)
    ]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    begun = [job.batch_size for bench in benches for job in bench.begun]
    assert sorted(begun) == list(range(1, 13))
    assert world.states(campaign) == ["done"] * 12
    assert sorted(step.batch_size for step in world.profiles.steps()) == sorted(begun)


def test_two_workers_on_one_device_take_turns_and_say_so(world: CampaignWorld) -> None:
    world.enter(jobs(1))
    worker = world.worker(Bench())
    thread = threading.Thread(target=worker.run)
    with machine_lock(world.device.turn_lock):
        thread.start()
        until(lambda: world.events)
        assert [event.kind for event in world.events] == [WorkEventKind.DEVICE_BUSY]
        assert "takes turns" in world.events[0].text
        # It has taken nothing on while it waits: others could do it elsewhere.
        assert world.task_store.has_open(Wanted(accelerators=["any"]))
        time.sleep(0.05)
        assert len(world.events) == 1
    thread.join(PATIENCE_S)
    assert world.events[-1].kind is WorkEventKind.FINISHED
    # It takes turns until its end, and has said so.
    worker._say_busy()
    assert [event.kind for event in world.events].count(WorkEventKind.DEVICE_BUSY) == 1


def test_a_campaign_needs_something_to_measure(world: CampaignWorld) -> None:
    with pytest.raises(InvalidInputError, match="1 to 100000 workloads; got 0"):
        world.enter([])


def test_a_random_order_is_that_of_its_seed(world: CampaignWorld) -> None:
    def order(seed: int) -> list[int]:
        name = world.enter(jobs(20), order=Order.RANDOM, seed=seed)
        return [task.job["batch_size"] for task in world.tasks(name)]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(1, 21))
