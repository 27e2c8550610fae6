"""The reference workload: whether the machine is still the one it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from campaign_world import REFERENCE, Bench, CampaignWorld, jobs

from perfmodel.campaigns.events import WorkEventKind
from perfmodel.graph.job import Job
from perfmodel.profilers.worker import Failure
from perfmodel.store.campaigns import ReferenceStore


def _references_take(*times_s: float) -> Callable[[Job, int], float]:
    taken = iter(times_s)
    return lambda job, number: next(taken) if job == REFERENCE else 0.001 * job.batch_size


@pytest.mark.parametrize("beside", [0, 2])
def test_the_reference_comes_first_after_every_few_and_last(
    world: CampaignWorld, beside: int
) -> None:
    campaign = world.enter(jobs(5), reference=REFERENCE, reference_every=2)
    bench = Bench()
    world.worker(bench, beside=beside).run()
    assert [job.batch_size for job in bench.begun] == [1000, 1, 2, 1000, 3, 4, 1000, 5, 1000]
    kept = ReferenceStore(world.connections).of_campaign(campaign)
    assert [reference.drift for reference in kept] == [None, 0.0, 0.0, 0.0]
    assert all(task.checked and task.doubt is None for task in world.tasks(campaign))


def test_a_drift_marks_what_was_measured_since_the_last_good_reference(
    world: CampaignWorld,
) -> None:
    campaign = world.enter(jobs(5), reference=REFERENCE, reference_every=2, drift_limit=0.1)
    # 1.0 s, then 5 % more, 20 % more, and as at first.
    bench = Bench(step_time_s=_references_take(1.0, 1.05, 1.2, 1.0))
    world.worker(bench).run()
    kept = ReferenceStore(world.connections).of_campaign(campaign)
    assert [reference.good for reference in kept] == [True, True, False, True]
    doubts = [task.doubt for task in world.tasks(campaign)]
    told = (
        "The reference took +20.0% against the first time on this machine, past the limit of 10%."
    )
    assert doubts == [None, None, told, told, None]
    steps = {step.batch_size: step for step in world.profiles.steps()}
    assert [steps[size].noisy for size in range(1, 6)] == [False, False, True, True, False]
    assert steps[3].provenance.notes == told
    assert world.campaigns.counts(campaign).doubtful == 2


def test_faster_than_before_is_a_drift_too(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(1), reference=REFERENCE, drift_limit=0.1)
    world.worker(Bench(step_time_s=_references_take(1.0, 0.8))).run()
    # 0.8 / 1.0 - 1 = -20 %.
    assert "took -20.0% against" in (world.tasks(campaign)[0].doubt or "")


def test_a_reference_that_cannot_be_measured_is_said_and_doubts_nothing(
    world: CampaignWorld,
) -> None:
    campaign = world.enter(jobs(2), reference=REFERENCE)
    failure = Failure(kind="error", reason="no such model")
    world.worker(Bench(failures={REFERENCE.batch_size: failure})).run()
    said = [event.text for event in world.events if event.kind is WorkEventKind.REFERENCE]
    assert said and set(said) == {"could not be measured: no such model"}
    assert world.states(campaign) == ["done", "done"]
    assert [(task.checked, task.doubt) for task in world.tasks(campaign)] == [(False, None)] * 2
    assert len(world.profiles.steps()) == 2


def test_references_count_towards_the_budget(world: CampaignWorld) -> None:
    campaign = world.enter(jobs(1), reference=REFERENCE)
    world.worker(Bench()).run()
    found = world.campaigns.find(campaign)
    took = world.tasks(campaign)[0].elapsed_s
    assert found is not None and took is not None
    assert found.spent_s > took
