"""Tasks as work, on both databases: leases, turns, budgets, references."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from waiting import PATIENCE_S

from perfmodel.store.campaigns import CampaignStore, ReferenceStore, TaskStore
from perfmodel.store.campaigns.campaign_records import NewTask, Task, TaskState
from perfmodel.store.campaigns.task_store import Wanted
from perfmodel.store.sql.connections import Connections

FOREVER_S = 3600.0
ANY = Wanted(accelerators=("any", "gpu"))


class Stores:
    """The three stores of one database."""

    def __init__(self, url: str) -> None:
        self.connections = Connections(url)
        self.campaigns = CampaignStore(self.connections)
        self.tasks = TaskStore(self.connections)
        self.references = ReferenceStore(self.connections)

    def enter(self, name: str, *sizes: int, accelerator: str = "any", **more: float) -> None:
        tasks = [NewTask(accelerator=accelerator, job={"batch_size": size}) for size in sizes]
        assert self.campaigns.create(name, tasks, policy={}, **more)  # type: ignore[arg-type]

    def claim(self, owner: str = "a", lease_s: float = FOREVER_S, wanted: Wanted = ANY) -> Task:
        found = self.tasks.claim(owner, wanted, lease_s=lease_s)
        assert found is not None
        return found

    def finish(self, claim: Task, machine: str = "m", key: str = "k") -> bool:
        return self.tasks.finish(claim, {"key": key}, machine=machine, elapsed_s=1.0)


@pytest.fixture
def stores(migrated_url: str) -> Iterator[Stores]:
    made = Stores(migrated_url)
    yield made
    made.connections.close()


def _size(claim: Task) -> int:
    return int(claim.job["batch_size"])


def test_tasks_are_begun_in_their_order_the_older_campaign_first(stores: Stores) -> None:
    stores.enter("one", 1, 2)
    stores.enter("two", 3)
    assert [_size(stores.claim()) for _ in range(3)] == [1, 2, 3]
    assert stores.tasks.claim("a", ANY, lease_s=FOREVER_S) is None


def test_turns_can_be_changed_while_tasks_wait(stores: Stores) -> None:
    stores.enter("one", 1, 2, 3)
    first = stores.claim()
    turns = {task.name: -task.turn for task in stores.campaigns.all_tasks("one")}
    stores.campaigns.set_turns(turns)
    assert _size(first) == 1
    assert [_size(stores.claim()) for _ in range(2)] == [3, 2]


def test_the_same_campaign_is_entered_once(stores: Stores) -> None:
    stores.enter("one", 1)
    assert not stores.campaigns.create("one", [], policy={})
    assert stores.campaigns.counts("one").total == 1


def test_only_what_its_device_answers_to_is_taken(stores: Stores) -> None:
    stores.enter("one", 1, accelerator="H100-SXM")
    assert stores.tasks.claim("a", ANY, lease_s=FOREVER_S) is None
    assert not stores.tasks.has_open(ANY)
    own = Wanted(accelerators=("any", "gpu", "H100-SXM"))
    assert stores.tasks.has_open(own)
    assert _size(stores.claim(wanted=own)) == 1


def test_a_task_ends_once_whoever_brings_it(stores: Stores) -> None:
    stores.enter("one", 1)
    lost = stores.claim("a", lease_s=-1.0)
    taken = stores.claim("b")
    assert taken.attempts == 2
    assert not stores.finish(lost)
    assert not stores.tasks.renew("a", [lost.name], lease_s=FOREVER_S)
    assert not stores.tasks.fail(lost, "late", machine="m", elapsed_s=1.0)
    assert stores.finish(taken)
    assert not stores.finish(taken)
    found = stores.campaigns.find("one")
    assert found is not None and found.spent_s == 1.0  # once, not twice


def test_a_task_that_lost_two_workers_is_set_aside(stores: Stores) -> None:
    stores.enter("one", 1)
    for owner in "ab":
        stores.claim(owner, lease_s=-1.0)
    assert stores.tasks.claim("c", ANY, lease_s=FOREVER_S) is None
    assert stores.tasks.set_aside_lost() == 1
    [task] = stores.campaigns.all_tasks("one")
    assert (task.state, task.attempts) == (TaskState.SET_ASIDE, 2)
    assert not stores.tasks.has_open(ANY)


def test_what_is_put_back_has_not_been_tried(stores: Stores) -> None:
    stores.enter("one", 1)
    for _ in range(5):
        assert stores.tasks.put_back(stores.claim())
    assert stores.claim().attempts == 1


def test_nothing_is_begun_past_the_budget(stores: Stores) -> None:
    stores.enter("one", 1, 2, 3, budget_s=2.0)
    stores.finish(stores.claim())
    stores.finish(stores.claim())  # 1 s + 1 s = 2 s
    assert stores.tasks.claim("a", ANY, lease_s=FOREVER_S) is None
    assert not stores.tasks.has_open(ANY)


def test_a_running_task_of_a_spent_campaign_may_come_back(stores: Stores) -> None:
    stores.enter("one", 1, 2, budget_s=1.0)
    stores.claim("b")
    stores.finish(stores.claim("a"))
    assert stores.tasks.has_open(ANY)


def test_references_judge_what_was_measured_since_the_one_before(stores: Stores) -> None:
    stores.enter("one", 1, 2, 3)

    def reference(step_time_s: float) -> float | None:
        return stores.references.add(
            "one", "m", step_time_s=step_time_s, drift_limit=0.1, elapsed_s=1.0
        ).drift

    assert reference(2.0) is None
    stores.finish(stores.claim(), key="x")
    stores.finish(stores.claim(), machine="other", key="y")
    assert reference(2.5) == pytest.approx(0.25)  # 2.5 / 2.0 - 1
    assert stores.tasks.check("one", "m", doubt="drift") == 1
    stores.finish(stores.claim(), key="z")
    assert [outcome["key"] for outcome in stores.tasks.unchecked("one", "m")] == ["z"]
    assert stores.tasks.check("one", "m", doubt=None) == 1
    assert stores.tasks.judged("one", "m") == {"x": "drift", "z": None}
    assert [one["key"] for one in stores.tasks.unchecked("one", "other")] == ["y"]
    found = stores.campaigns.find("one")
    assert found is not None and found.spent_s == 5.0  # three tasks, two references


def test_many_workers_at_once_share_the_tasks(stores: Stores) -> None:
    stores.enter("one", *range(40))
    taken: list[int] = []

    def work(owner: str) -> None:
        while (claim := stores.tasks.claim(owner, ANY, lease_s=FOREVER_S)) is not None:
            taken.append(_size(claim))

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(taken) == list(range(40))


def test_cancelling_ends_what_is_open_and_leaves_what_is_done(stores: Stores) -> None:
    stores.enter("one", 1, 2, 3)
    stores.finish(stores.claim())
    running = stores.claim()
    assert stores.campaigns.cancel("one")
    assert not stores.finish(running)
    states = [task.state for task in stores.campaigns.all_tasks("one")]
    assert states == [TaskState.DONE, TaskState.CANCELLED, TaskState.CANCELLED]
    assert not stores.campaigns.cancel("two")
