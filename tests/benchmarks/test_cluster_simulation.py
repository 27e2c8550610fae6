"""Laws of the simulated cluster, on made-up tables."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_simulation.allocation import Rows, share_time
from cluster_simulation.goodput_planner import GoodputPlanner
from cluster_simulation.goodput_rates import Configuration, MeasuredGoodput, StepTable
from cluster_simulation.policies import POLICIES, SharingPlanner
from cluster_simulation.rates import MeasuredRates, Rates
from cluster_simulation.rounds import Arrival, Placed, checked, simulate
from cluster_simulation.traces import GoodputTraceForm, TraceForm, at_once

POLICY = {policy.name: policy for policy in POLICIES}
#: Of a fast and a slow kind; the third job type runs equally well on both.
RATES = ((1.0, 8.0), (2.0, 6.0), (3.0, 3.0), (3.0, 10.0), (10.0, 10.0), (7.0, 50.0))
KEYS = (("a", 1), ("b", 1), ("c", 1), ("b", 2), ("c", 4), ("a", 8))


def rates(alone=RATES, *, keys=KEYS, kept=0.0):
    """Return a table; of two jobs on the same accelerators each keeps a share of its rate."""
    alone = np.array(alone)
    beside = np.repeat(kept * alone[:, None], len(alone), axis=1)
    return Rates(keys=keys, kinds=("slow", "fast"), alone=alone, beside=beside)


def run(policy, trace, *, seen=None, measured=None, capacity=(8, 8), watch=None):
    measured = measured or rates()
    planner = SharingPlanner(POLICY[policy], (seen or measured).usable(), trace, capacity)
    truth = MeasuredRates(table=measured, subjects=[job.subject for job in trace])
    if watch is not None:
        planner = watch(planner)
    return simulate(trace, capacity, planner, truth)


def job(work, *, subject=0, arrival_s=0.0, accelerators=1):
    return Arrival(arrival_s=arrival_s, subject=subject, accelerators=accelerators, work=work)


class Watched:
    """A planner whose rounds are kept."""

    def __init__(self, planner):
        self._planner, self.rounds = planner, []

    def plan(self, active, remaining):
        self.rounds.append(list(self._planner.plan(active, remaining)))
        return self.rounds[-1]

    def failed(self, placed):
        self._planner.failed(placed)


@pytest.mark.parametrize("policy", POLICY)
def test_a_single_job_takes_its_work_over_its_rate_from_the_next_round_on(policy):
    # 8000 / 8 = 1000 s on the fast kind, from the first round after 100 s on: that at 360 s.
    (done,) = run(policy, [job(8000.0, arrival_s=100.0)]).completion_s
    assert done == pytest.approx(360 + 1000)


def test_time_is_shared_so_that_the_least_gain_is_greatest():
    # With a share of the fast one, job 0 gains 4 a + (1 - a), job 1 gains 2 (1 - a) + a: both
    # 1.75 at a = 1/4. All together gain most, 4 + 1, where job 0 has it alone.
    gains = np.zeros((2, 2, 2))
    gains[:, 0] = [[1.0, 4.0], [1.0, 2.0]]
    rows = Rows(members=np.array([[0, -1], [1, -1]]), rates=gains)
    ones, rng = np.ones(2), np.random.default_rng(0)
    fair = share_time(rows, gains, ones, (1, 1), fair=True, rng=rng)
    assert fair == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]), abs=1e-6)
    together = share_time(rows, gains, ones, (1, 1), fair=False, rng=rng)
    assert together == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]), abs=1e-6)


@pytest.mark.parametrize("decades", [0, 5])
@pytest.mark.parametrize("fair", [True, False])
def test_nobody_gains_by_swapping_the_kinds_of_the_true_table(fair, decades):
    rng = np.random.default_rng(1)
    for _ in range(20):
        gains = np.zeros((5, 2, 2))
        gains[:, 0] = rng.uniform(0.1, 1.0, (5, 2)) * 10 ** rng.uniform(0, decades, (5, 1))
        members = np.stack([np.arange(5), np.full(5, -1)], axis=1)
        reached = []
        for seen in (gains, gains[:, :, ::-1]):
            rows = Rows(members=members, rates=seen)
            shares = share_time(rows, seen, np.ones(5), (1, 2), fair=fair, rng=rng)
            each = (gains[:, 0] * shares).sum(axis=1)
            reached.append(each.min() if fair else each.sum())
        # The mean of all, each beside its best, counts for a hundredth beside the least.
        assert reached[0] >= reached[1] * (1 - 0.02)


def test_equal_jobs_get_equal_time():
    # Two jobs on one accelerator: each runs every other round.
    watched = []

    def watch(planner):
        watched.append(Watched(planner))
        return watched[-1]

    trace = [job(8 * 360 * 10.0), job(8 * 360 * 10.0)]
    run("max_min_fairness", trace, capacity=(0, 1), watch=watch)
    ran = [placed.jobs[0] for plan in watched[0].rounds for placed in plan]
    assert len(ran) == 20
    for rounds in range(2, 20, 2):
        assert abs(ran[:rounds].count(0) - ran[:rounds].count(1)) <= 1


@pytest.mark.parametrize("policy", POLICY)
def test_work_is_conserved_and_capacity_is_kept(policy):
    measured = rates(kept=0.8)
    trace = TraceForm(jobs=25, per_hour=0.5).draw(measured, 3)
    if POLICY[policy].at_once:
        trace = at_once(trace)
    watched = []

    def watch(planner):
        watched.append(Watched(planner))
        return watched[-1]

    out = run(policy, trace, measured=measured, watch=watch)
    assert np.all(out.completion_s > out.arrival_s)
    truth = MeasuredRates(table=measured, subjects=[one.subject for one in trace])
    progress, last = np.zeros(len(trace)), np.zeros(len(trace))
    for plan in watched[0].rounds:
        checked(plan, (8, 8))
        for placed in plan:
            for one, rate in zip(placed.jobs, truth.rates(placed), strict=True):
                progress[one] += 360 * rate
                last[one] = 360 * rate
    work = np.array([one.work for one in trace])
    # All was done, and only the last round was not needed in full.
    assert np.all(progress >= work * (1 - 1e-9)) and np.all(progress - last < work)


@pytest.mark.parametrize("policy", POLICY)
def test_the_same_trace_ends_the_same(policy):
    form = TraceForm(jobs=20, per_hour=1.0)
    first, again, other = (form.draw(rates(), seed) for seed in (5, 5, 6))
    assert first == again != other
    ends = [run(policy, trace).completion_s.tolist() for trace in (first, again)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("policy", ["max_min_fairness", "packing"])
def test_knowing_nothing_costs_nothing_where_kinds_are_equal(policy):
    measured = rates(alone=np.array([[4.0, 1.0, 2.0, 8.0, 16.0, 8.0]] * 2).T)
    blind = Rates(
        keys=KEYS,
        kinds=measured.kinds,
        alone=np.full((6, 2), np.nan),
        beside=np.full((6, 6, 2), np.nan),
    )
    trace = TraceForm(jobs=20, per_hour=0.3).draw(measured, 2)
    ends = [run(policy, trace, measured=measured, seen=seen) for seen in (measured, blind)]
    assert ends[0].completion_s == pytest.approx(ends[1].completion_s)


def test_predictions_that_swap_kinds_cost_time():
    trace = TraceForm(jobs=30, per_hour=0.3).draw(rates(), 4)
    swapped = rates(alone=np.array(RATES)[:, ::-1])
    right, wrong = (run("shortest_job_first", trace, seen=seen) for seen in (rates(), swapped))
    assert wrong.average_s > 1.2 * right.average_s


def test_a_job_that_does_not_fit_loses_a_round_and_is_sent_elsewhere():
    measured = rates(alone=[[2.0, 0.0], *RATES[1:]])
    believed = rates(alone=[[1.0, 9.0], *RATES[1:]])
    # A round of 360 s is lost, then 720 / 2 = 360 s.
    (done,) = run("max_min_fairness", [job(720.0)], seen=believed, measured=measured).completion_s
    assert done == pytest.approx(720)


@pytest.mark.parametrize(("kept", "done_s"), [(1.0, 1000.0), (0.5, 2000.0)])
def test_pairs_run_where_they_do_more_than_one_alone(kept, done_s):
    # Two jobs of 1000 s on one accelerator: both at once, or one after the other in turns.
    trace = [job(8000.0), job(8000.0)]
    out = run("packing", trace, measured=rates(kept=kept), capacity=(0, 1))
    assert out.completion_s.max() == pytest.approx(done_s, rel=0.2)


def test_plans_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="takes \\[3, 0\\] accelerators where there are"):
        checked([Placed((0,), 0, 3)], (2, 2))
    with pytest.raises(ValueError, match="runs a job twice"):
        checked([Placed((0,), 0, 1), Placed((0,), 1, 1)], (2, 2))


def test_the_share_of_busy_accelerators_counts_until_the_last_arrival():
    # One of 16 for the rounds at 0 and 360 s; the second job arrives for the round at 720 s.
    trace = [job(8 * 3600.0), job(8.0, arrival_s=700.0)]
    assert run("max_min_fairness", trace).busy == pytest.approx(1 / 16)


def test_gaps_of_a_table_prefer_no_kind():
    known = [[np.nan, 8.0], [np.nan, np.nan], [0.0, 0.0], [5.0, np.nan], [np.nan] * 2, [7.0, 50.0]]
    # That of the other kind; a half of type b's rate on two; as many steps as accelerators.
    filled = [[8.0, 8.0], [2.5, 2.5], [1.0, 1.0], [5.0, 5.0], [4.0, 4.0], [7.0, 50.0]]
    gaps = rates(alone=known)
    assert gaps.usable().alone.tolist() == filled


CONFIGURATIONS = (
    Configuration(cluster="aws", placement="1"),
    Configuration(cluster="aws", placement="2"),
    Configuration(cluster="dgx", placement="1"),
)


def steps(step_time_s):
    step_time_s = np.array(step_time_s)
    return StepTable(
        applications=("cifar10",),
        configurations=CONFIGURATIONS,
        batch_sizes=(64, 128),
        step_time_s=step_time_s,
        sync_time_s=np.zeros_like(step_time_s),
    )


def choose(goodput, trace, capacity):
    planner = GoodputPlanner(goodput, [0, 0, 1], [1, 2, 1], trace, capacity)
    return planner.plan(range(len(trace)), np.ones(len(trace)))


def test_goodput_is_progress_at_the_initial_batch():
    # On two with 128 each: 256 / 0.5 = 512 samples/s, worth (16 + 1) 128 / (16 128 + 256) = 0.944.
    goodput = steps([[[0.1, 0.2], [0.3, 0.5], [np.nan, 0.1]]]).goodput()
    assert goodput[0, 1, 1] == pytest.approx(512 * 17 * 128 / (16 * 128 + 256))
    assert goodput[0, 2, 0] == 0.0
    # At the initial batch on one, what is trained is what counts.
    assert goodput[0, 0, 1] == pytest.approx(128 / 0.2)


def test_configurations_are_chosen_for_the_sum_of_all_jobs():
    trace = [job(1.0, subject=0, accelerators=0), job(1.0, subject=1, accelerators=0)]
    goodput = np.zeros((2, 3, 2))
    # The second gains less from the other kind: it gets what is left.
    goodput[0, :, 0], goodput[1, :, 0] = [1.0, 1.5, 4.0], [1.0, 1.5, 2.0]
    plan = choose(goodput, trace, (1, 1))
    assert {placed.jobs[0]: placed.setting // 2 for placed in plan} == {0: 2, 1: 0}
    # With room for two of the first kind it grows.
    plan = choose(goodput, trace, (2, 1))
    assert {placed.jobs[0]: placed.setting // 2 for placed in plan} == {0: 2, 1: 1}


def test_jobs_that_choose_run_as_measured_and_within_capacity():
    measured = steps([[[0.1, 0.2], [0.2, 0.3], [0.03, 0.05]]]).goodput()
    trace = GoodputTraceForm(jobs=20, per_hour=1.0).draw(measured.max(axis=2)[:, [0, 2]], 0)
    planner = Watched(GoodputPlanner(measured, [0, 0, 1], [1, 2, 1], trace, (3, 1)))
    truth = MeasuredGoodput(goodput=measured, subjects=[0] * len(trace))
    out = simulate(trace, (3, 1), planner, truth)
    assert np.all(out.completion_s > out.arrival_s)
    # Nobody is done before the best of all configurations would have been.
    least = np.array([one.work for one in trace]) / measured.max()
    assert np.all(out.completion_s - out.arrival_s >= least * (1 - 1e-9))
    assert max(checked(plan, (3, 1)) for plan in planner.rounds) == 4
