"""Policies that share the time of accelerators, and the planner that turns shares into rounds.

A policy says what a job gains by running somewhere all the time:

========================  ======================================================================
``max_min_fairness``      rate beside that under equal shares of all kinds, times accelerators
``makespan``              rate beside the work that is left
``shortest_job_first``    the same, all jobs together: what is nearly done goes first
``packing``               as ``max_min_fairness``, with pairs of jobs on the same accelerators
========================  ======================================================================

Shares are worked out again when a job arrives or is done. In between, a row that got less time on
a kind than its share is owed the rest; every round those run that are owed most, as far as there is
room, and what is still free then goes to the other jobs in order of arrival, each where its rate
is best.

Reference: Narayanan et al., OSDI 2020; that a row is owed rounds across allocations is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from cluster_simulation.allocation import IntArray, Rows, share_time
from cluster_simulation.rates import Rates
from cluster_simulation.rounds import Arrival, FloatArray, Placed

#: Shares below are noise of the solver.
_LEAST_SHARE = 1e-6
#: Two jobs are paired where together they do so much more than one alone.
_WORTH_PAIRING = 1.05

#: From rates alone, accelerators, capacity and work left (jobs, jobs x kinds) to the gain that one
#: unit of rate is worth to each job.
Worth = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How time is shared.

    Parameters
    ----------
    worth : callable
        What a unit of rate is worth to each job.
    fair : bool
        The least gain counts, not the sum.
    pairs : bool
        Jobs may share accelerators.
    at_once : bool
        It is judged on jobs that are all there at the start, by the makespan.
    """

    name: str
    title: str
    worth: Worth
    fair: bool = True
    pairs: bool = False
    at_once: bool = False


def _beside_equal_shares(
    alone: FloatArray, accelerators: FloatArray, capacity: FloatArray, _: FloatArray
) -> FloatArray:
    return np.asarray(accelerators / (alone @ (capacity / capacity.sum())))


def _beside_work_left(
    _alone: FloatArray, _accelerators: FloatArray, _capacity: FloatArray, work: FloatArray
) -> FloatArray:
    return np.asarray(1 / work)


POLICIES = (
    Policy(name="max_min_fairness", title="Max-min fairness", worth=_beside_equal_shares),
    Policy(name="makespan", title="Least makespan", worth=_beside_work_left, at_once=True),
    Policy(
        name="shortest_job_first", title="Shortest job first", worth=_beside_work_left, fair=False
    ),
    Policy(
        name="packing",
        title="Max-min fairness with pairs",
        worth=_beside_equal_shares,
        pairs=True,
    ),
)


class SharingPlanner:
    """Plans rounds by shares of time.

    Parameters
    ----------
    seen : Rates
        What the policy believes, without gaps.
    trace : sequence of Arrival
        Subjects are keys of ``seen``.
    """

    def __init__(
        self, policy: Policy, seen: Rates, trace: Sequence[Arrival], capacity: Sequence[int]
    ) -> None:
        self._policy, self._trace, self._capacity = policy, trace, tuple(capacity)
        self._alone, self._beside = seen.alone.copy(), _worth_pairing(seen)
        self._tried = np.zeros(seen.alone.shape, dtype=np.bool_)
        self._rng = np.random.default_rng(0)
        self._jobs: tuple[int, ...] = ()
        self._shares: dict[Placed, float] = {}
        self._owed: dict[Placed, float] = {}
        self._rest: list[Placed] = []

    def failed(self, placed: Placed) -> None:
        """Never run these jobs there again."""
        keys = [self._trace[job].subject for job in placed.jobs]
        if len(keys) == 1:
            self._tried[keys[0], placed.kind] = True
            self._alone[keys[0], placed.kind] = 0.0
            if not self._alone[keys[0]].any():
                self._alone[keys[0]] = ~self._tried[keys[0]]
        else:
            self._beside[keys[0], keys[1], placed.kind] = 0.0
            self._beside[keys[1], keys[0], placed.kind] = 0.0
        self._jobs = ()

    def plan(self, active: Sequence[int], remaining: FloatArray) -> list[Placed]:
        """Return those that are owed most, then whoever finds room."""
        if self._jobs != tuple(active):
            self._jobs = tuple(active)
            self._allocate(remaining)
        for one, share in self._shares.items():
            self._owed[one] += share
        first = sorted(self._shares, key=self._owed.__getitem__, reverse=True)
        room, running, plan = list(self._capacity), set[int](), []
        for one in [*first, *self._rest]:
            if room[one.kind] >= one.accelerators and running.isdisjoint(one.jobs):
                room[one.kind] -= one.accelerators
                running.update(one.jobs)
                plan.append(one)
                if one in self._owed:
                    self._owed[one] -= 1.0
                if not any(room):
                    break
        return plan

    def _allocate(self, remaining: FloatArray) -> None:
        jobs = np.array(self._jobs)
        keys = np.array([self._trace[job].subject for job in jobs])
        accelerators = np.array([float(self._trace[job].accelerators) for job in jobs])
        alone = self._alone[keys]
        capacity = np.array(self._capacity, dtype=np.float64)
        worth = self._policy.worth(alone, accelerators, capacity, remaining[jobs])
        rows = self._rows(keys, accelerators)
        gains = rows.rates * worth[rows.members][:, :, None]
        shares = share_time(
            rows, gains, accelerators, self._capacity, fair=self._policy.fair, rng=self._rng
        )
        chance = self._rng.random(alone.shape)
        placed = {
            _placed(jobs, accelerators, rows.members[row], kind): float(shares[row, kind])
            for row, kind in np.argwhere(shares > _LEAST_SHARE).tolist()
        }
        self._shares = placed
        self._owed = {one: self._owed.get(one, 0.0) for one in placed}
        self._rest = [
            _placed(jobs, accelerators, np.array([row, -1]), kind)
            for row in range(len(jobs))
            for kind in np.lexsort((chance[row], -alone[row])).tolist()
            if alone[row, kind] > 0
        ]

    def _rows(self, keys: IntArray, accelerators: FloatArray) -> Rows:
        alone = self._alone[keys]
        members = np.stack([np.arange(len(keys)), np.full(len(keys), -1)], axis=1)
        rates = np.stack([alone, np.zeros_like(alone)], axis=1)
        if not self._policy.pairs:
            return Rows(members=members, rates=rates)
        beside = self._beside[np.ix_(keys, keys)]
        pairs = np.argwhere(np.triu((beside > 0).any(axis=2), k=1))
        first, second = pairs.T
        both = np.stack([beside[first, second], beside[second, first]], axis=1)
        return Rows(members=np.concatenate([members, pairs]), rates=np.concatenate([rates, both]))


def _worth_pairing(seen: Rates) -> FloatArray:
    """Return rates beside another job, 0 where the two do hardly more than one alone."""
    alone, beside = seen.alone, seen.beside
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = beside / alone[:, None]
    together = np.nan_to_num(kept + kept.transpose(1, 0, 2), posinf=0.0)
    same = seen.accelerators[:, None] == seen.accelerators
    runs = (beside > 0) & (beside.transpose(1, 0, 2) > 0)
    return np.where(same[:, :, None] & runs & (together > _WORTH_PAIRING), beside, 0.0)


def _placed(jobs: FloatArray, accelerators: FloatArray, members: FloatArray, kind: int) -> Placed:
    there = [int(member) for member in members if member >= 0]
    return Placed(tuple(int(jobs[one]) for one in there), kind, int(accelerators[there[0]]))
