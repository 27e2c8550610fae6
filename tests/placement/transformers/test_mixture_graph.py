"""Mixtures of experts read off captured graphs, whatever their library calls them."""

from __future__ import annotations

from typing import Any

import pytest

from perfmodel.graph.job_form import parse_job
from perfmodel.placement.transformers.transformer_graph import graph_shape
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.zoo.resolve import capture_job

#: Small enough to be captured in a moment; each type reads the names that it knows.
SMALL = {
    "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 128, "moe_intermediate_size": 32, "vocab_size": 256, "head_dim": 16,
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
}  # fmt: skip


def _job(kind: str, **fields: Any) -> Any:
    return parse_job(
        {
            "hf_config": {"model_type": kind, **SMALL, **fields}, "mode": "training",
            "batch_size": 2, "sequence_length": 32, "precision": "bf16",
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "mixture_layers", "inner"),
    [
        ("mixtral", 3, 128), ("olmoe", 3, 128), ("granitemoe", 3, 128), ("qwen2_moe", 3, 32),
        ("qwen3_moe", 3, 32), ("glm4_moe", 2, 32), ("deepseek_v2", 2, 32), ("minimax", 3, 128),
    ],
)  # fmt: skip
def test_experts_are_counted_in_any_mixture(kind: str, mixture_layers: int, inner: int) -> None:
    graph = capture_job(_job(kind))
    shape = graph_shape(graph)
    assert shape is not None
    assert (shape.experts, shape.experts_per_token, shape.layers) == (8, 2, 3)
    assert (shape.mixture_layers, shape.inner_size, shape.is_gated) == (mixture_layers, inner, True)
    assert shape.parameter_count == graph.parameter_count


def test_a_name_and_its_graph_agree() -> None:
    job = _job("qwen3_moe")
    named, read = transformer_shape(job), graph_shape(capture_job(job))
    assert named is not None and read is not None
    assert read.parameter_count == named.parameter_count
    assert read.token_weights == pytest.approx(named.token_weights, rel=0.01)


def test_layers_without_experts_have_none() -> None:
    """DeepSeek-V3 has 671 billion parameters: three of its 61 layers are dense."""
    shape = transformer_shape(_job("deepseek_v3", **FULL))
    assert shape is not None
    assert shape.parameter_count == pytest.approx(671.0e9, rel=1e-3)
    assert shape.mixture_layers == 58


FULL = {
    "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "vocab_size": 129280, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
}  # fmt: skip
