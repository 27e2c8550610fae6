"""What schedulers see of a table, what is wrong in it, and the page about it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cluster_simulation.goodput_rates import Configuration, StepTable
from cluster_simulation.rates import Rates
from regret_report import seen_rates, seen_steps
from regret_report.page import write_page
from regret_report.repairs import repaired, with_typical_kinds
from regret_report.results import PolicyResults, Results
from regret_report.step_repairs import repaired_steps
from regret_report.table_errors import (
    application_errors,
    family_errors,
    goodput_errors,
    sharing_errors,
)

KEYS = (("LM (batch size 5)", 1), ("LM (batch size 5)", 2), ("A3C", 1))
MEASURED = np.array([[2.0, 8.0], [3.0, 16.0], [4.0, 4.0]])


def rates(alone, kept=0.5):
    alone = np.array(alone)
    beside = np.repeat(kept * alone[:, None], len(alone), axis=1)
    return Rates(keys=KEYS, kinds=("k80", "v100"), alone=alone, beside=beside)


def steps(step_time_s):
    places = (("aws", "1"), ("aws", "2"), ("dgx", "1"), ("dgx", "2"))
    step_time_s = np.array(step_time_s)
    return StepTable(
        applications=("bert",),
        configurations=tuple(Configuration(cluster=c, placement=p) for c, p in places),
        batch_sizes=(8, 12),
        step_time_s=step_time_s,
        sync_time_s=np.zeros_like(step_time_s),
    )


STEPS = [[[0.8, 1.2], [1.0, 1.4], [0.2, 0.3], [0.3, 0.4]]]


def test_each_knowledge_knows_what_it_says():
    known = {one.name: one.known(rates(MEASURED)).tolist() for one in seen_rates.PREDICTED}
    nothing, everything = [[False, False]] * 3, [[True, True]] * 3
    assert known["nothing observed"] == nothing and known["all but pairs"] == everything
    assert known["one cell"] == [[False, True], [False, False], [False, True]]
    assert known["all but V100"] == [[True, False]] * 3
    known = {one.name: one.known(steps(STEPS))[0] for one in seen_steps.PREDICTED}
    # The initial batch of bert is 12, the second.
    assert known["one cell"].tolist() == [[False, True], *[[False, False]] * 3]
    assert known["all but A100"].tolist() == [[True, True]] * 2 + [[False, False]] * 2


def test_who_is_blind_prefers_nothing():
    blind = seen_rates.blind_rates(rates(MEASURED)).usable()
    assert blind.alone.tolist() == [[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]
    assert not blind.beside.any()
    goodput = seen_steps.blind_steps(steps(STEPS)).goodput()[0]
    assert goodput[0].tolist() == goodput[2].tolist() and goodput[1].tolist() == goodput[3].tolist()


def test_errors_are_those_put_in():
    # All rates twice too high, and on V100 half as much again; pairs keep too much.
    seen = rates(MEASURED * [2.0, 3.0], kept=0.7)
    (row,) = sharing_errors({"oracle": rates(MEASURED), "blind": seen, "seen": seen})
    assert row["rates"] == pytest.approx((np.log(2) + np.log(3)) / 2)
    assert row["between kinds"] == pytest.approx(np.log(1.5))
    assert row["more accelerators"] == pytest.approx(0, abs=1e-12)
    assert row["beside another job"] == pytest.approx(np.log(0.7 / 0.5))
    families = {one["family"]: one for one in family_errors(seen, rates(MEASURED))}
    assert families["A3C"]["between kinds"] == pytest.approx(1.5)
    assert families["LM"]["measured between kinds"] == pytest.approx([4.0, 16 / 3])


def test_pairs_that_run_are_counted():
    measured = rates(MEASURED)
    beside = measured.beside.copy()
    beside[0, 0] = 0.0
    (row,) = sharing_errors(
        {
            "oracle": replace(measured, beside=beside),
            "seen": replace(measured, beside=np.zeros_like(beside)),
        }
    )
    assert row["of pairs that run, said not to"] == 1.0
    assert row["of pairs that do not, said to"] == 0.0


def test_parts_are_made_right_one_at_a_time():
    measured = rates(MEASURED)
    seen = rates([[4.0, 24.0], [3.0, 18.0], [1.0, 2.0]])
    parts = repaired(seen, measured)
    between = parts["ratios between kinds"].alone
    assert between[:, 1] / between[:, 0] == pytest.approx(MEASURED[:, 1] / MEASURED[:, 0])
    assert between.prod(axis=1) == pytest.approx(seen.alone.prod(axis=1))
    more = parts["what more accelerators bring"].alone
    assert more[1] / more[0] == pytest.approx(MEASURED[1] / MEASURED[0])
    levels = parts["levels of job types"].alone
    assert levels[:2].prod() == pytest.approx(MEASURED[:2].prod())
    assert levels[:, 1] / levels[:, 0] == pytest.approx(seen.alone[:, 1] / seen.alone[:, 0])
    family = parts["all of LM"]
    assert family.alone == pytest.approx(np.array([*MEASURED[:2], seen.alone[2]]))
    assert family.beside[0, 2] / family.alone[0] == pytest.approx(0.5)


def test_gaps_can_be_filled_as_other_jobs_are():
    seen = rates([[2.0, 8.0], [np.nan, 12.0], [np.nan, np.nan]])
    filled = with_typical_kinds(seen).alone
    assert filled[0].tolist() == [2.0, 8.0]
    # The only job known on both kinds is four times as fast on the second.
    assert filled[1:, 1] / filled[1:, 0] == pytest.approx([4.0, 4.0])
    assert filled[1, 1] == 12.0


def test_errors_of_goodput_are_those_put_in():
    # On the second cluster half the time; the smaller batch is believed to be best there.
    seen = np.array(STEPS) / [[[1.0], [1.0], [2.0], [2.0]]]
    seen[0, 2, 1] = 9.9
    tables = {"oracle": steps(STEPS), "seen": steps(seen)}
    (row,) = goodput_errors(tables)
    true = steps(STEPS).goodput()[0]
    off = np.log(2 * true[2, 0] / true[2].max())
    assert row["between kinds"] == pytest.approx(abs(off))
    assert row["lost by batch size"] == pytest.approx((1 - true[2, 0] / true[2].max()) / 4)
    (row,) = application_errors(tables["seen"], tables["oracle"])
    assert row["one seen"][0] == 1.0 and row["one measured"][1] == true[2].max() / true[0].max()


def test_parts_of_steps_are_made_right_one_at_a_time():
    measured = steps(STEPS)
    # One accelerator of the first kind is off by 2, several by 3 beside it; the second kind by 5;
    # the larger batch by 1.21 beside the smaller.
    off = np.array([[2.0], [6.0], [5.0], [5.0]]) * [1 / 1.1, 1.1]
    seen = steps(np.array(STEPS) / off)
    parts = {name: one.step_time_s[0] for name, one in repaired_steps(seen, measured).items()}
    true = measured.step_time_s[0]
    sizes = np.array([1 / 1.1, 1.1])
    assert parts["both"] == pytest.approx(true / sizes)
    assert parts["what batch sizes bring"] == pytest.approx(true / [[2.0], [6.0], [5.0], [5.0]])
    alone = parts["one accelerator of each kind"]
    assert alone == pytest.approx(true / sizes / [[1.0], [3.0], [1.0], [1.0]])
    more = parts["what more accelerators bring"]
    assert more == pytest.approx(true / sizes / [[2.0], [2.0], [5.0], [5.0]])
    assert parts["all of bert"] == pytest.approx(true)


def test_a_policy_that_ran_again_stands_in_the_place_of_the_earlier_one():
    before = results()
    (one,) = before.policies
    again = replace(one, judged_h={**one.judged_h, "blind": [15.0, 30.0]})
    other = replace(one, name="q")
    new = replace(before, policies=[again], repairs=[])
    joined = new.joined(replace(before, policies=[one, other]))
    assert joined.policies == [again, other] and joined.repairs == before.repairs
    with pytest.raises(ValueError, match="run all policies"):
        replace(new, facts={**new.facts, "traces": 9}).joined(before)


def results():
    judged = {
        "oracle": [10.0, 20.0],
        "blind": [14.0, 28.0],
        "nothing observed": [13.0, 27.0],
        "one cell": [11.0, 22.0],
    }
    policy = PolicyResults(
        name="p", title="Fairness", by_makespan=False, judged_h=judged, busy=[0.8, 0.8]
    )
    return Results(
        facts={
            "command": "python benchmarks/regret.py", "date": "2026-01-01", "model": "m",
            "minutes": 1.0, "traces": 2, "jobs": {"shared": 3, "chosen": 4},
        },
        policies=[policy],
        repairs=[policy],
        errors={
            name: [{"table": "nothing observed", "rates": 0.5}]
            for name in ("sharing", "families", "goodput", "applications")
        },
    )  # fmt: skip


def test_the_page_is_written_from_what_was_kept(tmp_path):
    results().write(tmp_path / "kept" / "results.json")
    kept = Results.read(tmp_path / "kept" / "results.json")
    assert kept == results()
    write_page(kept, tmp_path / "regret.md")
    page = (tmp_path / "regret.md").read_text()
    # (1.3 + 1.35) / 2; of blind (13 / 14 + 27 / 28) / 2 = 0.946.
    assert "| nothing observed | 20.0 | **1.325** +- 0.035 | 0.946 +- 0.025 |" in page
    assert "0.97 of blind: reached" in page and "1.06 of the oracle's: missed" in page
    assert "](regret.svg)" in page and "80.0 % of the accelerators" in page
    assert ElementTree.parse(tmp_path / "regret.svg").getroot().tag.endswith("svg")


@pytest.mark.slow
@pytest.mark.skipif("PERFMODEL_DATA" not in os.environ, reason="PERFMODEL_DATA is not set")
def test_measured_cells_are_seen_as_they_are():
    from perfmodel.estimator import Estimator

    measured = seen_rates.measured_rates(Path(os.environ["PERFMODEL_DATA"]))
    estimator = Estimator.from_folder("models")
    for knowledge in seen_rates.PREDICTED[:2]:
        seen = seen_rates.predicted_rates(estimator, measured, knowledge)
        known = knowledge.known(measured)
        assert seen.alone[known] == pytest.approx(measured.alone[known])
        asked = ~known & np.isfinite(seen.alone) & (measured.alone > 0)
        assert asked.any() and not np.allclose(seen.alone[asked], measured.alone[asked])
        # No trace can run a pair that nobody measured.
        assert np.isnan(seen.beside[np.isnan(measured.beside)]).all()
