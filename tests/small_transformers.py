"""Configs of small transformers of every family whose dimensions are read."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96,
    "vocab_size": 100, "max_position_embeddings": 64,
}  # fmt: skip
CONFIGS: list[dict[str, Any]] = [
    {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64},
    {"model_type": "opt", "ffn_dim": 96, "word_embed_proj_dim": 64, **SMALL},
    {"model_type": "llama", "num_key_value_heads": 2, **SMALL},
    {"model_type": "llama", "attention_bias": True, "mlp_bias": True, **SMALL},
    {"model_type": "mistral", "num_key_value_heads": 2, **SMALL},
    {"model_type": "mixtral", "num_key_value_heads": 2, "num_local_experts": 4, **SMALL},
    {"model_type": "qwen2", "num_key_value_heads": 2, **SMALL},
    {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 32, **SMALL},
    {
        "model_type": "qwen3_moe",
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 48,
        **SMALL,
    },
    {
        "model_type": "gpt_oss",
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        **SMALL,
    },
    {"model_type": "bert", **SMALL},
    {"model_type": "roberta", **SMALL},
    {"model_type": "gpt_neox", **SMALL},
]
