from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from work_done import calls_of

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import Job
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_cells import PlanColumns
from perfmodel.placement.plans.plan_answer import TransformerTraining, job_choice, plan_answer
from perfmodel.placement.plans.plan_candidates import plan_candidates
from perfmodel.placement.plans.plan_search import USABLE_SHARE, search_plans
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Plan
from perfmodel.types import Mode, Precision


def _job(size: str, **changes: object) -> Job:
    job = Job(
        model="zoo/mpt",
        model_kwargs={"size": size},
        mode=Mode.TRAINING,
        precision=Precision.AMP_BF16,
        optimizer="adamw",
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def _training(size: str) -> TransformerTraining:
    training = TransformerTraining.of(_job(size))
    assert training is not None
    return training


def _fabric(written: str) -> Fabric:
    return Fabric.of(parse_placement(written))


def test_pipelines_of_many_stages_are_not_interleaved() -> None:
    shape = replace(_training("7b").shape, layers=128)
    found = plan_candidates(shape, _fabric("8x(8xA100-SXM4-80GB)@8xib-200g"), 512)
    deepest = {one.plan.pipeline for one in found}
    interleaved = {one.plan.pipeline for one in found if one.plan.virtual_stages > 1}
    assert max(deepest) == 64
    assert max(interleaved) == 32


def test_candidates_use_every_accelerator_and_the_whole_batch() -> None:
    fabric = _fabric("2x(8xA100-SXM4-80GB)@ib-200g")
    found = plan_candidates(_training("7b").shape, fabric, 64)
    columns = PlanColumns.of(found)
    assert np.all(columns.accelerators == 16) and np.all(columns.samples == 64)
    assert all(one.plan.tensor <= 8 for one in found)
    assert len({(c.plan, c.micro_batch, c.micro_batches) for c in found}) == len(found)
    assert {one.plan.pipeline for one in found} == {1, 2, 4, 8, 16}


def test_the_best_is_the_fastest_and_everything_fits() -> None:
    fabric = _fabric("8xA100-SXM4-80GB")
    found = search_plans(_training("7b"), fabric, global_batch=64)
    times = [plan.step_time_s for plan in found.plans]
    assert times == sorted(times)
    room = USABLE_SHARE * fabric.accelerators[0].memory_bytes
    assert all(plan.memory_bytes <= room for plan in found.plans)
    best, second = found.plans[:2]
    assert best.samples_per_second == pytest.approx(64 / best.step_time_s)
    assert best.reason.startswith("Fastest that fits") and "longer than the best" in second.reason
    assert 0 < found.too_large < found.considered


def test_small_models_are_replicated_and_large_ones_are_split() -> None:
    fabric = _fabric("8xA100-SXM4-80GB")
    small = search_plans(_training("125m"), fabric, global_batch=256).plans[0].choice.plan
    assert small.data == 8 and small.zero_stage < 3
    large = search_plans(_training("13b"), fabric, global_batch=64).plans[0].choice.plan
    assert large.zero_stage == 3 or large.tensor * large.pipeline > 1


def test_slow_links_turn_plans_to_what_sends_less() -> None:
    fast, slow = (
        search_plans(_training("7b"), _fabric(f"4x(8xA100-SXM4-80GB)@{name}"), global_batch=128)
        for name in ("ib-800g", "eth-10g")
    )
    assert slow.plans[0].step_time_s >= fast.plans[0].step_time_s
    assert slow.plans[0].choice.plan.zero_stage < 3


def test_what_fits_nowhere_says_by_how_much() -> None:
    found = search_plans(_training("70b"), _fabric("2xA100-SXM4-40GB"), global_batch=8)
    assert found.plans == () and found.too_large == found.considered > 0
    assert "needs" in found.why_none and "GB" in found.why_none


def test_a_batch_that_no_plan_divides_is_refused() -> None:
    # 13 divide neither 7 samples nor 12 heads, and are more than 12 layers.
    with pytest.raises(InvalidPlacementError, match="13 accelerators"):
        search_plans(_training("125m"), _fabric("13xA100-SXM4-80GB"), global_batch=7)


def test_one_accelerator_has_the_time_that_was_given() -> None:
    job = _job("125m", batch_size=8, accumulation_steps=2)
    one = job_choice(job, Plan(data=1))
    steps = plan_answer(
        _training("125m"), _fabric("1xA100-SXM4-80GB"), [one], single_s=np.array([3.0])
    )
    assert steps.step_time_s[0] == pytest.approx(3.0, rel=1e-12)


def test_links_are_as_fast_however_long_one_accelerator_computes() -> None:
    training, fabric = _training("125m"), _fabric("4xA100-SXM4-80GB")
    split = [job_choice(_job("125m", batch_size=8), Plan(data=2, tensor=2))]
    one = plan_answer(
        training,
        _fabric("1xA100-SXM4-80GB"),
        [job_choice(_job("125m", batch_size=8), Plan(data=1))],
    )
    usual_s = one.step_time_s
    usual, slow, quick = (
        plan_answer(training, fabric, split, single_s=times * usual_s).parts
        for times in (1.0, 5.0, 0.2)
    )
    assert slow.compute_s == pytest.approx(5.0 * usual.compute_s)
    assert slow.communication_s == usual.communication_s == quick.communication_s
    assert slow.exposed_communication_s == usual.exposed_communication_s
    # Less computing hides less of it, and never more than there is.
    assert usual.exposed_communication_s < quick.exposed_communication_s <= quick.communication_s


def test_a_known_step_scales_every_plan() -> None:
    training, fabric = _training("125m"), _fabric("4xA100-SXM4-80GB")
    plain = search_plans(training, fabric, global_batch=64)
    double = search_plans(training, fabric, global_batch=64, scale=2.0)
    assert double.plans[0].step_time_s == pytest.approx(2 * plain.plans[0].step_time_s)


def test_a_search_over_many_accelerators_takes_as_little_work_as_over_few() -> None:
    def calls(hosts: int) -> int:
        fabric = _fabric(f"{hosts}x(8xH100-SXM5-80GB)@ib-400g")
        return calls_of(lambda: search_plans(_training("70b"), fabric, global_batch=512))

    # Plans are told in columns: what is counted is the plans that are listed in the end.
    assert calls(32) < 2 * calls(8)
