"""Which jobs the equations of plans weigh in on."""

from __future__ import annotations

import pytest

from perfmodel.estimator.jobs.prepared_job import is_language_model
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision


@pytest.mark.parametrize(
    ("kind", "answered"),
    [
        ("llama", True), ("gpt_oss", True), ("qwen3_moe", True), ("deepseek_v3", True),
        ("nemotron", True), ("bert", False),
    ],
)  # fmt: skip
def test_mixtures_are_language_models_too(kind: str, *, answered: bool) -> None:
    job = Job(
        hf_config={"model_type": kind}, mode=Mode.TRAINING, precision=Precision.AMP_BF16,
        sequence_length=128,
    )  # fmt: skip
    assert is_language_model(job) is answered
