from __future__ import annotations

from typing import Any

import pytest
from small_transformers import CONFIGS, SMALL

from perfmodel.graph.job import Job
from perfmodel.placement.transformers.transformer_graph import graph_shape
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.resolve import capture_job


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c["model_type"])
def test_parameters_of_a_config_are_those_of_the_model(config: dict[str, Any]) -> None:
    from perfmodel.zoo.transformers.huggingface import build_huggingface

    module = build_huggingface(config, batch_size=1, sequence_length=8).module
    found = transformer_shape(Job(hf_config=config, sequence_length=8))
    assert found is not None and found.sequence_length == 8
    assert found.parameter_count == sum(p.numel() for p in module.parameters())


def test_layers_without_experts_count_as_layers_with_them() -> None:
    """As many products for each token; the first layers of DeepSeek-V3 are as wide for that."""
    from perfmodel.zoo.transformers.huggingface import build_huggingface

    config = {"model_type": "deepseek_v3"}
    found = transformer_shape(Job(hf_config=config, sequence_length=8))
    assert found is not None
    module = build_huggingface(config, batch_size=1, sequence_length=8).module
    assert found.parameter_count == pytest.approx(
        sum(p.numel() for p in module.parameters()), rel=1e-4
    )
    # 37 billion parameters work on each token, among them the output layer but not the input's.
    active = found.layers * found.token_weights + found.vocabulary * found.hidden_size
    assert active == pytest.approx(37e9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("mpt", {}),
        ("gpt2", {}),
        ("gpt3", {"size": "small"}),
        ("opt", {}),
        ("megatron-gpt", {"num_layers": 2, "hidden_size": 64, "num_heads": 2}),
    ],
)
def test_parameters_of_a_workload_are_those_of_the_model(name: str, kwargs: dict[str, Any]) -> None:
    module = build_reference(name, kwargs, batch_size=1, sequence_length=64).module
    found = transformer_shape(Job(model=f"zoo/{name}", model_kwargs=kwargs, sequence_length=64))
    assert found is not None
    assert found.parameter_count == sum(p.numel() for p in module.parameters())


def test_an_architecture_names_its_type() -> None:
    found = transformer_shape(Job(hf_config={"architectures": ["MixtralForCausalLM"]}))
    assert found is not None and found.experts == 8 and found.experts_per_token == 2


@pytest.mark.parametrize(
    "job",
    [
        Job(model="timm/resnet50"),
        Job(model="zoo/mpt", model_kwargs={"size": "9000b"}),
        Job(hf_config={"model_type": "t5"}),
        Job(hf_config={"model_type": "llama", "num_attention_heads": "many"}),
        Job(graph="00"),
    ],
    ids=lambda job: job.label,
)
def test_what_is_no_stack_of_equal_layers_has_no_shape(job: Job) -> None:
    assert transformer_shape(job) is None


def test_a_graph_says_the_same_as_its_config() -> None:
    job = Job(
        hf_config={"model_type": "llama", "num_key_value_heads": 2, **SMALL}, sequence_length=16
    )
    told, seen = transformer_shape(job), graph_shape(capture_job(job))
    assert told is not None and seen is not None
    assert seen.token_flops == told.token_flops and seen.parameter_count == told.parameter_count
    assert (seen.layers, seen.heads, seen.key_value_heads, seen.inner_size) == (2, 4, 2, 96)
    assert seen.is_gated and not seen.is_tied


def test_a_graph_without_attention_has_no_shape() -> None:
    assert graph_shape(capture_job(Job(model="zoo/mlp"))) is None
