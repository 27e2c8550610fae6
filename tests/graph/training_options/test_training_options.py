"""Training options of a job: read, refused with a reason, and written back."""

from __future__ import annotations

from typing import Any

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job, job_to_dict, stated_fields
from perfmodel.graph.job_form import parse_job
from perfmodel.graph.training_options.adapter import LowRankAdapter
from perfmodel.types import Mode, Precision

BASE = {"model": "zoo/mlp", "mode": "training", "batch_size": 2}
#: As peft writes it, with fields that change no step.
LORA = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 16, "lora_alpha": 32, "lora_dropout": 0.05,
    "target_modules": ["q_proj", "v_proj"], "modules_to_save": None, "use_dora": False,
    "base_model_name_or_path": "any/name", "init_lora_weights": True,
}  # fmt: skip


def test_mixed_precision_is_read_and_written_back() -> None:
    job = parse_job({**BASE, "mixed_precision": {"parameter": "bf16", "reduce": "fp32"}})
    mixed = job.mixed_precision
    assert mixed is not None
    # Kept in 4 bytes and computed with in 2; reduced in 4; buffers as parameters.
    assert mixed.kept_over_computed == mixed.reduced_over_computed == 2.0
    assert mixed.buffers_over_computed == 1.0
    assert (job.precision, job.arithmetic) == (Precision.FP32, Precision.BF16)
    assert parse_job(job_to_dict(job)) == job


def test_its_step_on_one_accelerator_is_that_of_its_arithmetic() -> None:
    stated = parse_job({**BASE, "mixed_precision": {"parameter": "bf16"}})
    assert stated.step == parse_job({**BASE, "precision": "bf16"})
    fp32 = parse_job({**BASE, "mixed_precision": {"parameter": "fp32", "reduce": "bf16"}})
    assert fp32.step == parse_job(BASE)


def test_adapters_are_read_as_peft_writes_them() -> None:
    job = parse_job({**BASE, "adapter": LORA, "frozen": ["bias*"]})
    assert job.adapter == LowRankAdapter(rank=16, target_modules=("q_proj", "v_proj"), dropout=0.05)
    assert job.frozen == ("bias*",)
    assert not job.trains_all
    assert parse_job(job_to_dict(job)) == job


def test_jobs_that_state_nothing_are_named_as_before() -> None:
    plain = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=2)
    assert stated_fields(plain) == {"model": "zoo/mlp", "mode": "training", "batch_size": 2}
    assert plain.reference != parse_job({**BASE, "adapter": LORA}).reference


@pytest.mark.parametrize(
    ("said", "pointer", "words"),
    [
        ({"mixed_precision": {"reduce": "fp32"}}, "/job/mixed_precision/parameter", "parameter"),
        ({"mixed_precision": {"parameter": "fp8"}}, "/job/mixed_precision/parameter", "fp8"),
        ({"mixed_precision": {"parameter": "bf16"}, "precision": "amp_bf16"}, "/job/precision",
         "kept in fp32"),
        ({"mixed_precision": {"parameter": "bf16"}, "mode": "inference"}, "/job/mixed_precision",
         "trains nothing"),
        ({"adapter": {**LORA, "peft_type": "IA3"}}, "/job/adapter/peft_type", "IA3"),
        ({"adapter": {**LORA, "use_dora": True}}, "/job/adapter/use_dora", "not answered"),
        ({"adapter": {**LORA, "r": 0}}, "/job/adapter/r", "whole number"),
        ({"adapter": {**LORA, "target_modules": []}}, "/job/adapter/target_modules", "no module"),
        ({"adapter": {**LORA, "target_modules": "(a+)+"}}, "/job/adapter/target_modules",
         "repeats too much"),
        ({"adapter": LORA, "mode": "inference"}, "/job/adapter", "trains nothing"),
        ({"frozen": "layer*"}, "/job/frozen", "list"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(said: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        parse_job({**BASE, **said})
    assert caught.value.pointer == pointer


def test_adapters_need_a_model_that_is_captured_with_them() -> None:
    graph = {"graph": "0" * 64, "mode": "training", "batch_size": 2}
    with pytest.raises(InvalidInputError, match="Name the model"):
        parse_job({**graph, "adapter": LORA})
