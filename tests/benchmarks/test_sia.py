"""Tests of the judgement of calibration, on made-up jobs."""

from __future__ import annotations

import calibration_world as world
import numpy as np
from placement_accuracy import sia
from placement_accuracy.run import PARTS, divided

from perfmodel.placement.calibration.script_gap import ScriptGap
from perfmodel.placement.calibration.step_response import Field
from perfmodel.training.placement_fits.fit_calibration import START
from perfmodel.training.placement_rows.script_rows import Group, Measured

GAP = ScriptGap(
    usual={Field.DEVICE: 0.3, Field.HOST: 0.3}, machines={}, jobs={},
    sds={Field.DEVICE: 0.5, Field.HOST: 0.5}, links={},
)  # fmt: skip
PLACEMENTS = {
    "1": (1, 1, 1), "2": (2, 1, 2), "4": (4, 1, 4), "8": (8, 1, 8), "11": (2, 2, 1),
    "14": (5, 2, 4), "44": (8, 2, 4), "88": (16, 2, 8), "18": (9, 2, 8), "22": (4, 2, 2),
    "33": (6, 2, 3), "24": (6, 2, 4), "48": (12, 2, 8), "77": (14, 2, 7),
}  # fmt: skip


def groups() -> dict[Group, Measured]:
    found = {}
    for job, device in (("a", 0.2), ("b", 0.5)):
        for cluster, slower in (("near", 0.5), ("far", 1.5)):
            at = world.cells(tuple(PLACEMENTS.values()), job=job, cluster=cluster)
            steps = world.measured(at, device=device, communication=slower, seed=len(found))
            found[Group(job, cluster)] = Measured(steps, np.repeat(list(PLACEMENTS), 3))
    return found


def test_every_question_is_answered_and_observations_help():
    priors = {group: START.of_scripts(GAP) for group in groups()}
    lines = {line.name: line for line in sia.judge(groups(), priors, draws=1)}
    assert lines.keys() == {question.name for question in sia.QUESTIONS}
    for line in lines.values():
        assert np.all(np.isfinite(line.predicted) & (line.predicted > 0))
        assert np.all((line.low <= line.predicted) & (line.predicted <= line.high))
    three = lines["sia-3-observed-alone"]
    # Four groups of 14 placements but 3, with three batch sizes.
    assert len(three.measured) == 4 * 11 * 3
    assert three.errors().mean() < 0.5 * three.errors("no observation").mean()


def test_what_is_observed_is_not_asked():
    measured = groups()[Group("a", "near")]
    for question in sia.QUESTIONS:
        seen, asked = question.observe(measured, 0, np.random.default_rng(0))
        assert not set(seen.tolist()) & set(asked.tolist())


def test_a_job_is_answered_by_a_prior_that_never_saw_it(monkeypatch):
    fitted = []
    monkeypatch.setattr(sia, "fit_prior", lambda some, steps: fitted.append(set(some)) or START)
    named = {
        Group(f"sia/{group.job}", group.cluster): measured._replace(model=f"zoo/{group.job}")
        for group, measured in groups().items()
    }
    elsewhere = {Group("other name", "far"): named[Group("sia/a", "near")]}
    monkeypatch.setattr(sia, "is_locked", lambda model: False)
    priors = sia.sia_priors(named | elsewhere, steps=0)
    assert [{group.job for group in some} for some in fitted] == [
        {"sia/b"},
        {"sia/a", "other name"},
    ]
    gaps = []
    monkeypatch.setattr(sia, "fit_gap", lambda alone, *_: gaps.append(set(alone)) or GAP)
    found = sia.priors_of_scripts(named | elsewhere, priors)
    assert found.keys() == named.keys()
    # Of the other job, and of no cluster that is asked about.
    at = [[(g.job, g.cluster) for g in sorted(some)] for some in gaps]
    assert at[list(found).index(Group("sia/a", "near"))] == [("sia/b", "far")]
    assert at[list(found).index(Group("sia/b", "near"))] == [
        ("other name", "far"),
        ("sia/a", "far"),
    ]


def test_parts_that_share_predictions_are_judged_by_one_process() -> None:
    parts = divided(PARTS)
    assert sorted(part for some in parts for part in some) == sorted(PARTS)
    assert parts[0] == ["sia", "job_types"]
    assert divided(["plans", "memory"]) == [["plans"], ["memory"]]
