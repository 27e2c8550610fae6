"""A worker that is killed, between any two steps of its work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from campaign_world import REFERENCE, Bench, CampaignWorld, jobs
from migrated import migrated_sqlite

from perfmodel.store import durable
from perfmodel.store.campaigns import ReferenceStore, TaskStore
from perfmodel.store.campaigns.campaign_records import TaskState
from perfmodel.store.profiles import ProfileStore

TASKS = 3
LEASE_S = 0.15
#: What a worker does that leaves a trace; a moment before each is the one after what came before.
STEPS: tuple[tuple[Any, str], ...] = (
    (TaskStore, "claim"), (TaskStore, "finish"), (TaskStore, "check"),
    (ReferenceStore, "add"), (ProfileStore, "append"), (ProfileStore, "compact"),
    (durable, "_sync"), (Bench, "__call__"),
)  # fmt: skip


def _killing(at: int) -> Callable[[], None]:
    """Return what ends this process when it is called for the n-th time."""
    moments = iter(range(at))

    def moment() -> None:
        if next(moments, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return moment


def _around(step: Callable[..., Any], moment: Callable[[], None]) -> Callable[..., Any]:
    def after_moment(*args: Any, **kwargs: Any) -> Any:
        moment()
        return step(*args, **kwargs)

    return after_moment


def _work(url: str, folder: Path, at: int | None) -> None:
    if at is not None:
        moment = _killing(at)
        for owner, name in STEPS:
            setattr(owner, name, _around(getattr(owner, name), moment))
    world = CampaignWorld(url=url, folder=folder)
    world.worker(Bench(log=folder / "begun"), lease_s=LEASE_S).run()
    world.close()


def _in_child(url: str, folder: Path, at: int | None) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=_work, args=(url, folder, at))
    child.start()
    child.join(60)
    return child.exitcode


def _begun(folder: Path) -> Counter[int]:
    sizes = Counter(int(line) for line in (folder / "begun").read_text().split())
    del sizes[REFERENCE.batch_size]
    return sizes


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that waits for no disk, where there is one: a kill needs none to be seen."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def test_a_kill_at_any_moment_loses_at_most_the_running_task(quick_folder: Path) -> None:
    for at in range(200):
        folder = quick_folder / str(at)
        folder.mkdir()
        world = CampaignWorld(url=migrated_sqlite(folder), folder=folder)
        campaign = world.enter(jobs(TASKS), reference=REFERENCE, reference_every=2)
        world.close()
        ended = _in_child(world.url, folder, at)
        finished = [task for task in world.tasks(campaign) if task.state is TaskState.DONE]
        world.close()
        assert _in_child(world.url, folder, None) == 0
        tasks = world.tasks(campaign)
        assert [task.state for task in tasks] == [TaskState.DONE] * TASKS, at
        # What was finished is as it was, but for what a later reference said of it.
        after = {task.name: task for task in tasks}
        assert all(after[task.name].attempts == task.attempts for task in finished), at
        assert all(after[task.name].outcome == task.outcome for task in finished), at
        begun = _begun(folder)
        assert sorted(begun) == [1, 2, 3]
        assert sum(begun.values()) <= TASKS + 1, at
        assert all(begun[task.job["batch_size"]] == 1 for task in finished), at
        assert sorted(step.batch_size for step in world.profiles.steps()) == [1, 2, 3], at
        assert all(task.checked for task in tasks), at
        assert not list(world.profiles.folder.rglob("*.json.gz")), at
        world.close()
        if ended == 0:
            assert at > 30, "so many moments there are at least"
            return
        assert ended == -signal.SIGKILL
    pytest.fail("the worker was never let finish")


def test_a_task_that_takes_its_worker_with_it_twice_is_set_aside(tmp_path: Path) -> None:
    world = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    campaign = world.enter(jobs(2))
    world.close()

    def fatal(url: str) -> None:
        inner = CampaignWorld(url=url, folder=tmp_path)

        def end(job: Any) -> None:
            if job.batch_size == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        inner.worker(Bench(before=end), lease_s=LEASE_S).run()
        os._exit(0)

    context = multiprocessing.get_context("fork")
    ends = []
    for _ in range(3):
        child = context.Process(target=fatal, args=(world.url,))
        child.start()
        child.join(60)
        ends.append(child.exitcode)
    assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0]
    first, second = world.tasks(campaign)
    assert (first.state, second.state) == (TaskState.SET_ASIDE, TaskState.DONE)
    assert first.reason is not None and "lost 2 times while it ran" in first.reason
    world.close()
