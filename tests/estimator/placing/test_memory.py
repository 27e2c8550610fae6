"""Language models on TPUs: equations for compiled steps answer, for the time and the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.placing.memory import memory_on
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.memory.memory import memory_cell
from perfmodel.placement.plan_steps.plan_cells import Checkpointing
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode, Precision

pytest.importorskip("torch")
JOB = Job(
    model="zoo/gpt3",
    model_kwargs={"size": "small", "num_layers": 2},
    mode=Mode.TRAINING,
    batch_size=8,
    precision=Precision.AMP_BF16,
    optimizer="adamw",
    sequence_length=1024,
    activation_checkpointing=True,
)


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    library = GraphLibrary(capture=capture_in_process)
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=library)


def _ask(estimator: Estimator, placement: str) -> Estimate:
    return estimator.estimate(JOB, parse_placement(placement))


def test_a_tpu_is_answered_by_the_equations(estimator: Estimator) -> None:
    answer = _ask(estimator, "TPU-v5e")
    assert answer.basis is Basis.EXTRAPOLATED
    assert any("equations for language models" in text for text in answer.warnings)
    rate = answer.throughput
    # 1.645 deviations of 0.15 on both sides.
    assert rate.high / rate.low == pytest.approx(2.718281828 ** (2 * 1.645 * 0.15), rel=1e-6)


def test_other_kinds_keep_the_rung_of_what_predicts_them(estimator: Estimator) -> None:
    npu, gpu, cpu = (
        _ask(estimator, name) for name in ("Ascend-910B", "A100-SXM4-80GB", "EPYC-7763")
    )
    assert npu.basis is gpu.basis is cpu.basis is Basis.ANALYTICAL
    assert any("equations for language models" in text for text in npu.warnings)
    assert not any("equations for language models" in text for text in gpu.warnings + cpu.warnings)


def test_memory_of_a_compiled_step_is_below_that_of_the_program(estimator: Estimator) -> None:
    tpu, gpu = _ask(estimator, "TPU-v5p"), _ask(estimator, "H100-SXM5-80GB")
    assert tpu.memory.peak_bytes is not None and gpu.memory.peak_bytes is not None
    assert tpu.memory.peak_bytes < gpu.memory.peak_bytes
    assert tpu.memory.fits


def test_what_is_no_language_model_on_a_tpu_keeps_its_own_memory(estimator: Estimator) -> None:
    served = Job(model="zoo/gpt3", model_kwargs=dict(JOB.model_kwargs), sequence_length=64)
    for job, text, keeps in (
        (JOB, "A100-SXM4-80GB", True), (served, "TPU-v5e", True), (JOB, "TPU-v5e", False),
    ):  # fmt: skip
        prepared = estimator.core.prepare(job)
        placement = estimator.core.resolve(parse_placement(text))
        (kind,) = placement.kinds
        own = memory_cell(prepared.memory_profile, kind.held, job=job).demand_bytes
        found = memory_on(prepared, placement, kind).demand_bytes
        assert bool(found[0] == own[0]) is keeps
        assert found[0] <= own[0]


def test_slices_are_answered_whole(estimator: Estimator) -> None:
    rates = [
        _ask(estimator, f"{hosts}x(4xTPU-v5e) zero=3").throughput.samples_per_second
        for hosts in (1, 4, 16)
    ]
    assert rates[0] < rates[1] < rates[2]
    assert rates[2] <= 16 * rates[0]


@pytest.mark.parametrize(
    ("precision", "near"), [(Precision.AMP_BF16, 1e-6), (Precision.FP32, 0.15)]
)
def test_a_search_counts_memory_as_single_answers_do(
    estimator: Estimator, precision: Precision, near: float
) -> None:
    stated, host = replace(JOB, precision=precision, batch_size=1), parse_placement("4xTPU-v5e")
    found = estimator.search(stated, host, global_batch=256, most=3)
    assert found.plans
    for plan in found.plans:
        choice = plan.choice
        job = replace(
            stated,
            batch_size=choice.micro_batch,
            accumulation_steps=choice.micro_batches,
            activation_checkpointing=choice.checkpointing is Checkpointing.FULL,
            selective_checkpointing=choice.checkpointing is Checkpointing.SELECTIVE,
        )
        answer = estimator.estimate(job, replace(host, plan=choice.plan))
        assert plan.memory_bytes == pytest.approx(answer.memory.peak_bytes, rel=near)
        assert answer.memory.fits
        assert plan.step_time_s == pytest.approx(answer.step_time_s, rel=0.1)


@pytest.mark.parametrize("kinds", [("4xL4", "4xRTX-3090"), ("RTX-3090", "TPU-v5e")])
def test_of_unlike_hosts_the_one_that_runs_out_first_is_told(
    estimator: Estimator, kinds: tuple[str, str]
) -> None:
    for batch in (8, 16, 24, 32, 48):
        job = replace(JOB, precision=Precision.FP32, batch_size=batch)
        either = [
            estimator.estimate(job, parse_placement(f"{a}+{b}@eth-100g")).memory
            for a, b in (kinds, kinds[::-1])
        ]
        assert either[0] == either[1]
        alone = [estimator.estimate(job, parse_placement(one)).memory for one in kinds]
        known = [one.oom_probability for one in alone if one.oom_probability is not None]
        assert either[0].oom_probability == pytest.approx(max(known), abs=0.02)


def test_memory_is_that_of_the_count_whatever_was_asked_before(estimator: Estimator) -> None:
    # Replicas of a recommender divide its data set: each holds less, the more there are.
    job = Job(model="zoo/ncf", mode=Mode.TRAINING, batch_size=64)
    placements = [parse_placement(f"{count}xT4") for count in (2, 8, 4)]
    asked = [estimator.estimate(job, one).memory.peak_bytes for one in placements]
    assert asked == estimator.matrix([job], placements).peak_bytes[0].tolist()
    assert asked[0] > asked[2] > asked[1]


def test_what_megatron_splits_is_not_counted_from_the_program_of_the_hub(
    estimator: Estimator,
) -> None:
    # Attention with sinks writes its scores there: 16 heads of 2048 x 2048 a layer.
    config = {
        "model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 512,
        "intermediate_size": 512, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1024,
    }  # fmt: skip
    job = Job(
        hf_config=config, mode=Mode.TRAINING, batch_size=8, sequence_length=2048,
        precision=Precision.AMP_BF16, optimizer="adamw",
    )  # fmt: skip
    on_torch = replace(job, software={"torch": "2.9"})
    split, whole = "8xH100-SXM5-80GB ep=8 zero=1", "8xH100-SXM5-80GB zero=1"
    told = [
        estimator.estimate(one, parse_placement(text)).memory.peak_bytes or 0.0
        for one, text in ((job, split), (on_torch, split), (job, whole), (on_torch, whole))
    ]
    assert told[0] < 0.5 * told[1]
    assert told[2] == told[3]
