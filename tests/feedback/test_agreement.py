"""How far reporters agree, and what their voices count."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from perfmodel.feedback.agreement import Level, agreements


def _levels(lying: set[str], *, seed: int, own_jobs: bool) -> list[Level]:
    """Return what ten reporters saw of four jobs on two machines; some say twice as long."""
    source = random.Random(seed)
    found = []
    for who in map(str, range(10)):
        for at in range(4):
            job = f"{who}-{at}" if own_jobs else f"job-{at}"
            off = source.gauss(0.0, 0.15) if own_jobs else 0.1 * at
            for machine, slow in (("T4", 0.3), ("A100", -0.1)):
                lie = math.log(2.0) if who in lying else 0.0
                found.append(Level(who, machine, job, slow + off + lie + source.gauss(0.0, 0.02)))
    return found


@pytest.mark.parametrize("own_jobs", [True, False], ids=["own jobs", "the same jobs"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_liars_are_named_and_not_heard(count: int, own_jobs: bool) -> None:
    for seed in range(10):
        lying = set(map(str, random.Random(seed).sample(range(10), count)))
        found = agreements(_levels(lying, seed=seed, own_jobs=own_jobs))
        assert {who for who, one in found.items() if one.disagrees} == lying
        assert all(found[who].weight < 0.3 for who in lying)
        # Whose four jobs happen to be off together is heard less, and is no liar.
        assert fmean(one.weight for who, one in found.items() if who not in lying) > 0.85


def test_the_order_does_not_matter() -> None:
    levels = _levels({"3"}, seed=1, own_jobs=True)
    shuffled = random.Random(5).sample(levels, len(levels))
    assert agreements(levels) == agreements(shuffled)


def test_who_cannot_be_compared_counts_in_full() -> None:
    two = [Level("a", "T4", "x", 0.0), Level("b", "T4", "x", 2.0)]
    assert [one.weight for one in agreements(two).values()] == [1.0, 1.0]
    assert not any(one.disagrees for one in agreements(two).values())


def test_jobs_that_differ_make_nobody_a_liar() -> None:
    # One job of each, unlike by a factor of 1.4: it is the job that is off.
    source = random.Random(2)
    levels = [Level(f"r{n}", "T4", f"j{n}", source.gauss(0.0, 0.35)) for n in range(20)]
    assert not any(one.disagrees for one in agreements(levels).values())
