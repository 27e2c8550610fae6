"""A search of plans says what single answers say of the same plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.placing.split_replica import SPLIT_BY_MEGATRON_WARNING
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import RAN_OUT_S, Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plan_steps.plan_cells import Checkpointing
from perfmodel.placement.plans.plan_search import PlanRanking, RankedPlan
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.requests import parse_job
from perfmodel.types import Mode, Precision

pytest.importorskip("torch")

#: 6 layers of 2880 and 1,024 tokens: 0.6 billion parameters take 10 of the 16 GB of a T4.
JOB = Job(
    model="zoo/megatron-gpt",
    model_kwargs={"num_layers": 6, "hidden_size": 2880, "num_heads": 16, "vocab_size": 8192},
    mode=Mode.TRAINING,
    batch_size=1,
    precision=Precision.AMP_FP16,
    optimizer="adam",
)
HOST = parse_placement("8xT4")
MODELS = Path(__file__).resolve().parents[3] / "models"


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    library = GraphLibrary(capture=capture_in_process)
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=library)


@pytest.fixture(scope="module")
def shipped() -> Estimator:
    return Estimator.from_folder(MODELS, graphs=GraphLibrary(capture=capture_in_process))


@pytest.fixture(scope="module")
def found(estimator: Estimator) -> PlanRanking:
    return estimator.search(JOB, HOST, global_batch=256, most=6)


def _answer(
    estimator: Estimator,
    plan: RankedPlan,
    placement: Placement,
    job: Job = JOB,
    seen: Sequence[Observation] = (),
) -> Estimate:
    choice = plan.choice
    job = replace(
        job,
        batch_size=choice.micro_batch,
        accumulation_steps=choice.micro_batches,
        activation_checkpointing=choice.checkpointing is Checkpointing.FULL,
        selective_checkpointing=choice.checkpointing is Checkpointing.SELECTIVE,
    )
    return estimator.estimate(job, replace(placement, plan=choice.plan), seen)


def test_what_a_search_finds_fits_and_takes_as_long_as_an_answer_says(
    estimator: Estimator, found: PlanRanking
) -> None:
    assert found.too_large > 0
    for plan in found.plans[:3]:
        answer = _answer(estimator, plan, HOST)
        assert answer.memory.fits
        assert plan.memory_bytes <= answer.memory.capacity_bytes
        assert plan.memory_bytes == pytest.approx(answer.memory.peak_bytes, rel=0.15)
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.1)


@pytest.mark.parametrize(("power_limit_w", "script"), [(None, None), (250.0, None), (None, True)])
def test_splits_that_the_equations_answer_are_slowed_by_what_slows_one_accelerator(
    estimator: Estimator, power_limit_w: float | None, script: bool | None
) -> None:
    job = replace(JOB, precision=Precision.AMP_BF16, script=script)
    host = replace(parse_placement("8xH100-SXM5-80GB"), power_limit_w=power_limit_w)
    ranking = estimator.search(job, host, global_batch=256, most=40)
    split = [one for one in ranking.plans if one.choice.plan.tensor > 1]
    assert split
    for plan in split[:2]:
        answer = _answer(estimator, plan, host, job)
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.05)


def test_a_search_asks_who_splits_as_its_answers_do(estimator: Estimator) -> None:
    host = parse_placement("2xH100-SXM5-80GB")
    job = Job(model="zoo/gpt2", mode=Mode.TRAINING, precision=Precision.AMP_BF16)
    for software, asks in (({}, True), ({"torch": "2.9"}, False)):
        ranking = estimator.search(replace(job, software=software), host, global_batch=8)
        assert any(one.choice.plan.data == 1 for one in ranking.plans)
        assert (SPLIT_BY_MEGATRON_WARNING in ranking.warnings) is asks


def test_a_search_counts_the_memory_of_what_megatron_splits_as_its_answers_do(
    estimator: Estimator,
) -> None:
    # The program of the hub writes the scores of attention with sinks.
    config = {
        "model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 512,
        "intermediate_size": 512, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1024,
    }  # fmt: skip
    job = Job(
        hf_config=config, mode=Mode.TRAINING, batch_size=4, sequence_length=2048,
        precision=Precision.AMP_BF16, optimizer="adamw",
    )  # fmt: skip
    host = parse_placement("4xH100-SXM5-80GB")
    plans = estimator.search(job, host, global_batch=16, most=5).plans
    split = [one for one in plans if one.choice.plan.data < host.accelerator_count]
    assert split
    for plan in split:
        counted = _answer(estimator, plan, host, job).memory.peak_bytes
        assert plan.memory_bytes == pytest.approx(counted, rel=1e-9)


def test_plans_of_other_batches_than_the_job_has_take_as_long_as_their_answers(
    shipped: Estimator,
) -> None:
    stated = {"precision": "amp_bf16", "sequence_length": 512, "optimizer": "adamw"}
    job = parse_job({"model": "gpt2", "mode": "training", "batch_size": 1, **stated})
    host = parse_placement("8xA100-SXM4-80GB")
    plans = shipped.search(job, host, global_batch=256, most=6).plans
    assert max(plan.choice.micro_batch for plan in plans) > 8
    for plan in plans:
        answer = _answer(shipped, plan, host, job)
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.1)


@pytest.mark.parametrize("batch_size", [1, 128])
def test_a_search_does_not_ask_at_which_batch_the_job_is_stated(
    shipped: Estimator, batch_size: int
) -> None:
    stated = {"precision": "amp_bf16", "sequence_length": 128, "optimizer": "adamw"}
    # BERT's head of spans: no language model of those that the equations were fitted on.
    job = {"model": "zoo/bert-base-squad", "mode": "training", "batch_size": batch_size, **stated}
    host = parse_placement("4xA100-SXM4-80GB")
    for plan in shipped.search(parse_job(job), host, global_batch=512, most=3).plans:
        answer = _answer(shipped, plan, host, parse_job(job))
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.05)
        assert plan.memory_bytes == pytest.approx(answer.memory.peak_bytes, rel=0.05)


@pytest.mark.parametrize("place", ["4xA100-SXM4-80GB", "2x(2xA100-SXM4-80GB)@eth-10g"])
def test_plans_of_a_part_that_is_trained_take_as_long_as_their_answers(
    estimator: Estimator, place: str
) -> None:
    job = replace(JOB, precision=Precision.AMP_BF16, batch_size=4, frozen=("tokens.weight",))
    host = parse_placement(place)
    plans = estimator.search(job, host, global_batch=64, most=6).plans
    assert any(one.choice.plan.data == 4 for one in plans)
    for plan in plans:
        answer = _answer(estimator, plan, host, job)
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.05)


def test_copies_of_weights_are_counted_once_for_all_micro_batches(estimator: Estimator) -> None:
    # Of few tokens, copies are a good part; 8 samples lie between those that are captured.
    job = replace(JOB, precision=Precision.AMP_BF16, batch_size=1, sequence_length=128)
    host = parse_placement("4xA100-SXM4-80GB")
    plans = estimator.search(job, host, global_batch=64, most=40).plans
    deep = [one for one in plans if one.choice.plan.pipeline > 1 and one.choice.plan.tensor == 1]
    assert deep
    for plan in deep:
        answer = _answer(estimator, plan, host, job)
        assert plan.memory_bytes == pytest.approx(answer.memory.peak_bytes, rel=0.1)


def test_jobs_that_the_equations_were_not_fitted_on_keep_to_their_predictions(
    estimator: Estimator,
) -> None:
    images = Job(model="timm/vit_tiny_patch16_224", mode=Mode.TRAINING, batch_size=4)
    host = parse_placement("4xA10")
    found = estimator.search(images, host, global_batch=128, most=3)
    replicated = [one for one in found.plans if one.choice.plan.data == 4]
    assert replicated
    for plan in found.plans:
        choice = plan.choice
        job = replace(
            images, batch_size=choice.micro_batch, accumulation_steps=choice.micro_batches
        )
        answer = estimator.estimate(job, replace(host, plan=choice.plan))
        near = 0.03 if choice.plan.data == 4 else 0.15
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=near)


def _times(plans: Sequence[RankedPlan]) -> dict[object, float]:
    return {plan.choice.plan: plan.step_time_s for plan in plans}


def test_what_the_job_gets_of_each_accelerator_counts(
    estimator: Estimator, found: PlanRanking
) -> None:
    limited = estimator.search(JOB, parse_placement("8xT4 power=45"), global_batch=256, most=6)
    free, slow = _times(found.plans), _times(limited.plans)
    assert free.keys() & slow.keys()
    assert all(slow[plan] > free[plan] for plan in free.keys() & slow.keys())
    # Half of the memory as well: fewer plans fit.
    half = estimator.search(JOB, parse_placement("8xT4 fraction=0.5"), global_batch=256)
    assert half.too_large > found.too_large


def test_what_ran_lets_more_plans_fit(estimator: Estimator, found: PlanRanking) -> None:
    large = replace(JOB, batch_size=16)
    before = estimator.estimate(large, parse_placement("T4"))
    assert before.memory.fits is False
    seen = Observation(
        placement=parse_placement("T4"), batch_size=16, step_time_s=before.step_time_s
    )
    ranking = estimator.search(JOB, HOST, [seen], global_batch=256, most=6)
    assert ranking.too_large < found.too_large


def test_what_ran_out_leaves_fewer_plans_and_their_times(
    estimator: Estimator, found: PlanRanking
) -> None:
    plain = Checkpointing.NONE
    choice = next(one.choice for one in found.plans if one.choice.checkpointing is plain)
    seen = Observation(
        placement=replace(HOST, plan=choice.plan),
        batch_size=choice.micro_batch,
        accumulation_steps=choice.micro_batches,
        step_time_s=RAN_OUT_S,
    )
    ranking = estimator.search(JOB, HOST, [seen], global_batch=256, most=6)
    assert ranking.too_large > found.too_large
    before, after = (
        {one.choice: one.step_time_s for one in some.plans} for some in (found, ranking)
    )
    assert choice not in after
    assert before.keys() & after.keys()
    assert all(after[one] == before[one] for one in before.keys() & after.keys())


def test_a_search_refuses_what_its_answers_refuse(estimator: Estimator) -> None:
    # What ran alone with a larger batch says that the job is counted too high: only the order of
    # what is tighter is left to say that the plan does not fit.
    plain = Checkpointing.NONE
    large = replace(JOB, batch_size=4096)
    took_s = estimator.estimate(large, parse_placement("T4")).step_time_s
    ran = Observation(placement=parse_placement("T4"), batch_size=4096, step_time_s=took_s)
    before = estimator.search(JOB, HOST, [ran], global_batch=256, most=99)
    choice = before.plans[0].choice
    assert choice.checkpointing is plain
    out = Observation(
        placement=replace(HOST, plan=choice.plan), batch_size=choice.micro_batch,
        accumulation_steps=choice.micro_batches, step_time_s=RAN_OUT_S,
    )  # fmt: skip
    after = estimator.search(JOB, HOST, [ran, out], global_batch=256, most=99)
    assert (before.too_large, after.too_large > 0) == (0, True)
    assert choice not in [one.choice for one in after.plans]
    assert (RAN_OUT_WARNING in before.warnings, RAN_OUT_WARNING in after.warnings) == (False, True)
    for plan in after.plans:
        warnings = _answer(estimator, plan, HOST, seen=[ran, out]).warnings
        # Recomputed more it is another job, of which nothing is observed.
        assert plan.choice.checkpointing > plain or RAN_OUT_WARNING not in warnings


def test_observed_steps_count_in_a_search_as_they_do_in_answers(
    estimator: Estimator, found: PlanRanking
) -> None:
    one, last = parse_placement("T4"), found.plans[-1]
    alone = estimator.estimate(JOB, one).step_time_s
    slow = Observation(placement=one, batch_size=1, step_time_s=2 * alone)
    choice = last.choice
    fast = Observation(
        placement=replace(HOST, plan=choice.plan),
        batch_size=choice.micro_batch,
        accumulation_steps=choice.micro_batches,
        step_time_s=0.8 * found.plans[0].step_time_s,
    )
    for seen in ([slow], [slow, fast]):
        for script in (None, True):
            job = replace(JOB, script=script)
            ranking = estimator.search(job, HOST, seen, global_batch=256, most=6)
            assert [one.step_time_s for one in ranking.plans] != [
                one.step_time_s for one in found.plans
            ]
            for plan in ranking.plans[:2]:
                answer = _answer(estimator, plan, HOST, job, seen)
                assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.04), script


def test_a_transformer_is_recognised_in_a_step_of_several_micro_batches(
    estimator: Estimator,
) -> None:
    job = Job(model="timm/vit_tiny_patch16_224", mode=Mode.TRAINING, batch_size=4)
    split = parse_placement("2xA10 tp=2")
    once, thrice = (
        estimator.estimate(replace(job, accumulation_steps=steps), split).step_time_s
        for steps in (1, 3)
    )
    assert 2 * once < thrice < 4 * once


def test_plans_of_inference_are_refused_by_its_mode(estimator: Estimator) -> None:
    with pytest.raises(InvalidInputError, match="State the mode training") as refused:
        estimator.search(replace(JOB, mode=Mode.INFERENCE), HOST)
    assert refused.value.pointer == "/job/mode"
