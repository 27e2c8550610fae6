from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small_transformers import CONFIGS, SMALL

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import Job
from perfmodel.placement.memory.memory_profile import memory_profile
from perfmodel.placement.transformers.tensor_rank import rank_job
from perfmodel.zoo.resolve import capture_job

OTHERS = [one for one in CONFIGS if one["model_type"] in ("gpt2", "opt", "bert", "gpt_neox")]
#: Families whose dimensions are read off their graphs alone, beside the others.
STATED = {"num_key_value_heads": 2, "pad_token_id": None, **SMALL}
BY_GRAPH = [
    *[
        {"model_type": name, "head_dim": 32, **STATED}
        for name in ("gemma", "gemma2", "gemma3_text", "glm")
    ],
    *[
        {"model_type": name, **STATED}
        for name in ("cohere", "olmo2", "phi3", "smollm3", "starcoder2")
    ],
    {
        "model_type": "qwen2_moe", "num_experts": 4, "moe_intermediate_size": 48,
        "shared_expert_intermediate_size": 96, **STATED,
    },
]  # fmt: skip
DIVIDED = [
    *[one for one in CONFIGS if one not in OTHERS and one["model_type"] != "roberta"],
    *BY_GRAPH,
]


@pytest.mark.parametrize("config", DIVIDED, ids=lambda config: config["model_type"])
def test_ranks_hold_the_model_between_them(config: dict[str, Any]) -> None:
    job = Job(hf_config=config, sequence_length=16)
    whole, rank = (memory_profile(capture_job(one)) for one in (job, rank_job(job, 2)))
    # Norms, routers, and what has a bias for each feature of the model are held by both.
    assert whole.parameter_bytes < 2 * rank.parameter_bytes < 1.1 * whole.parameter_bytes


@pytest.mark.parametrize("config", OTHERS, ids=lambda config: config["model_type"])
def test_others_say_which_are_divided(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidPlacementError, match="config of cohere, gemma, .* Leave tensor"):
        rank_job(Job(hf_config=config), 2)


def test_what_cannot_be_divided_says_by_what_it_could() -> None:
    job = Job(hf_config={"model_type": "llama", "num_attention_heads": 12, "hidden_size": 768})
    with pytest.raises(InvalidPlacementError, match="12 heads, 12 of keys and values, and 11008"):
        rank_job(job, 8)
    with pytest.raises(InvalidPlacementError, match="not divided evenly"):
        rank_job(_with_keys(job, 3), 2)


def test_ranks_share_keys_of_which_there_are_fewer() -> None:
    job = Job(hf_config={"model_type": "llama", "num_attention_heads": 12, "hidden_size": 768})
    config = rank_job(_with_keys(job, 2), 4).hf_config or {}
    assert [config[f"num_{name}_heads"] for name in ("attention", "key_value")] == [3, 1]


def _with_keys(job: Job, heads: int) -> Job:
    return replace(job, hf_config={**(job.hf_config or {}), "num_key_value_heads": heads})
