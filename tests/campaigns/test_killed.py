"""A worker that is killed, between any two steps of its work."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from campaign_world import REFERENCE, CampaignWorld, jobs
from clean_forks import CleanForks
from migrated import migrated_sqlite
from often import often
from sqlalchemy import update

from perfmodel.store.campaigns.campaign_records import TaskState
from perfmodel.store.sql.tables import CAMPAIGN_TASKS

TASKS = 3


@pytest.fixture(scope="module")
def workers() -> Iterator[CleanForks]:
    """Return what works on campaigns in processes that may be killed."""
    with CleanForks(Path(__file__).with_name("killed_child.py")) as forks:
        yield forks


def _end_leases(world: CampaignWorld) -> None:
    """Let the tasks of a worker that was killed be anybody's at once."""
    with world.connections.writing() as connection:
        connection.execute(update(CAMPAIGN_TASKS).values(lease_until=0.0))


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


@pytest.mark.parametrize("beside", [0, 2])
@pytest.mark.parametrize("turn", range(often(1)))
def test_a_kill_at_any_moment_loses_at_most_the_running_task(
    turn: int,
    beside: int,
    quick_folder: Path,
    workers: CleanForks,
    record_property: Callable[[str, object], None],
) -> None:
    for at in range(200):
        folder = quick_folder / str(at)
        folder.mkdir()
        world = CampaignWorld(url=migrated_sqlite(folder), folder=folder)
        campaign = world.enter(jobs(TASKS), reference=REFERENCE, reference_every=2)
        world.close()
        ended = workers.run(world.url, folder, at, None, beside)
        finished = [task for task in world.tasks(campaign) if task.state is TaskState.DONE]
        _end_leases(world)
        world.close()
        assert workers.run(world.url, folder, None, None, beside) == 0
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
            record_property("kills of a worker", at)
            assert at > 30, "so many moments there are at least"
            return
        assert ended == -signal.SIGKILL
    pytest.fail("the worker was never let finish")


@pytest.mark.parametrize("beside", [0, 2])
def test_a_task_that_takes_its_worker_with_it_twice_is_set_aside(
    tmp_path: Path, workers: CleanForks, beside: int
) -> None:
    """Those that were begun beside it are measured: the second time it is alone."""
    world = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    campaign = world.enter(jobs(2))
    world.close()
    ends = []
    for _ in range(3):
        ends.append(workers.run(world.url, tmp_path, None, 1, beside))
        _end_leases(world)
    assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0]
    first, second = world.tasks(campaign)
    assert (first.state, second.state) == (TaskState.SET_ASIDE, TaskState.DONE)
    assert first.reason is not None and "lost 2 times while it ran" in first.reason
    world.close()
