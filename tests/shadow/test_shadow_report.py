"""What is found of two versions, with its arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import made_up_versions
import pytest
from migrated import migrated_sqlite

from perfmodel.registry.file_store import open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.shadow.shadow_report import read_report, summed_up
from perfmodel.shadow.starting import begin_shadow
from perfmodel.store.shadow.asked_questions import AskedQuestion, AskedQuestionStore
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore, Measured
from perfmodel.store.shadow.shadow_runs import ShadowRun
from perfmodel.store.sql.connections import Connections

ONE = Comparison(
    question="a", label="timm/resnet50 training batch 64", device="T4", mode="training",
    family="resnet", placement_kind="one accelerator", job_family="f", batch_size=64,
    accumulation_steps=1, placement='"T4"', named_placement='"T4"', serving_s=0.1, shadow_s=0.2,
    answered_ratio=0.25, compared_at="2026-11-02T00:00:00+00:00",
)  # fmt: skip
RUN = ShadowRun(
    name="default/2", state="waiting", attempts=0, problem=None, created_at="", updated_at=""
)


def test_ratios_are_summed_up_by_group() -> None:
    pairs = [
        ONE,
        replace(ONE, question="b", serving_s=0.1, shadow_s=0.1, answered_ratio=0.0),
        replace(ONE, question="c", device="A10", shadow_s=0.05, answered_ratio=None),
    ]
    found = summed_up("default/2", "default/1", pairs, {})
    overall, t4, a10 = found.groups[:3]
    assert (overall.dimension, t4.name, a10.name) == ("all", "T4", "A10")
    # ln 2, 0 and -ln 2.
    assert (overall.asked, overall.compared, overall.median) == (3, 3, 0.0)
    assert overall.mean_distance == pytest.approx(2 * math.log(2) / 3)
    assert overall.answered_distance == pytest.approx((0.25 + 0.0) / 2)
    assert t4.median == pytest.approx(math.log(2) / 2)
    # A tenth of the way from 0 to ln 2.
    assert t4.low == pytest.approx(0.1 * math.log(2))
    assert a10.largest == pytest.approx(-math.log(2))
    assert {one.dimension for one in found.groups} == {
        "all", "device", "mode", "family", "placement_kind",
    }  # fmt: skip
    assert [one.placement for one in found.most_different] == ["T4", "T4"]
    assert found.compared_at == ONE.compared_at


def test_who_was_right_is_judged_by_what_was_measured_since_the_training() -> None:
    before, since = Measured(0.1, "2026-11-01T00:00:00.000+00:00"), "2026-11-03T00:00:00.000+00:00"
    known = summed_up("v/2", "v/1", [ONE], {"a": [before]}, trained_at="2026-11-02T00:00:00Z")
    [group, *_] = known.groups
    # It serves the very 0.1 s; the shadow says 0.2 s.
    assert (group.observed, group.serving_error, group.shadow_nearer) == (1, 0.0, 0)
    assert group.shadow_error == pytest.approx(math.log(2))
    assert not known.observed[0].measured_since
    both = {"a": [before, Measured(0.18, since), Measured(0.22, since)]}
    later = summed_up("v/2", "v/1", [ONE], both, trained_at="2026-11-02T00:00:00Z")
    # The median of 0.18 and 0.22 is what the shadow says.
    assert later.observed[0].measured_s == pytest.approx(0.2)
    assert later.observed[0].measured_since
    assert (later.groups[0].shadow_nearer, later.groups[0].shadow_error) == (1, 0.0)


def test_questions_that_the_shadow_alone_fails_on_are_named() -> None:
    failing = replace(ONE, question="b", shadow_s=None, shadow_problem="no such layout")
    neither = replace(failing, question="c", serving_s=None, serving_problem="unknown job")
    other = replace(ONE, question="d", serving_s=None, serving_problem="too large")
    found = summed_up("v/2", "v/1", [ONE, failing, neither, other], {})
    assert [one.problem for one in found.failed] == ["no such layout"]
    group = found.groups[0]
    assert (group.asked, group.shadow_failed, group.serving_failed, group.compared) == (3, 1, 1, 1)


def test_a_job_type_has_nothing_but_its_answers() -> None:
    found = summed_up("v/2", "v/1", [replace(ONE, serving_s=None, shadow_s=None)], {})
    assert found.groups[0].mean_distance is None
    assert found.groups[0].answered_distance == 0.25
    assert found.most_different == ()


@pytest.mark.parametrize(
    ("run", "waiting", "stage"),
    [
        (None, 3, "none"),
        (RUN, 3, "waiting"),
        (RUN, 0, "done"),
        (replace(RUN, state="running"), 3, "running"),
        (replace(RUN, attempts=5, problem="damaged"), 3, "given up"),
    ],
)
def test_the_stage_says_what_is_to_come(run: ShadowRun | None, waiting: int, stage: str) -> None:
    found = summed_up("v/2", None, [], {}, run=run, waiting=waiting)
    assert (found.stage, found.groups, found.waiting) == (stage, (), waiting)


@pytest.mark.parametrize(("pairs", "stage"), [([], "none"), ([ONE], "done")])
def test_what_is_no_shadow_any_more_waits_for_nothing(
    pairs: list[Comparison], stage: str, tmp_path: Path
) -> None:
    made_up_versions.version(tmp_path, "1")
    made_up_versions.version(tmp_path, "2")
    registry = ModelRegistry(open_store(tmp_path))
    registry.promote("default", "1")
    connections = Connections(migrated_sqlite(tmp_path))
    asked = AskedQuestionStore(connections, most=3, most_bytes=1_000)
    asked.put([AskedQuestion(content="a"), AskedQuestion(content="b")])
    begin_shadow(registry, connections, "default", "2")
    if pairs:
        ComparisonStore(connections).add(
            "default/2",
            "default/1",
            [replace(one, question=asked.newest()[0].key) for one in pairs],
        )

    def report() -> tuple[str, int]:
        found = read_report(connections, registry, "default", "2")
        return found.stage, found.waiting

    assert report() == ("waiting", 2 - len(pairs))
    registry.promote("default", "2")
    assert report() == (stage, 0)
    asked.put([AskedQuestion(content="c")])
    registry.rollback("default")
    assert report() == (stage, 0)
    connections.close()
