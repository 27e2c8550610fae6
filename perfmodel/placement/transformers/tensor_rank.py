"""The part of a transformer that one tensor rank holds, as a job of its own.

A rank has its part of the heads, of the inner width of every network and of the words, and all
layers. That is a smaller model of the same family, whose step is captured and predicted as that of
any other: what narrower products lose and what a host still has to call is in it. What ranks
exchange comes on top.

Reference: Shoeybi et al., Megatron-LM, 2019.
"""

from __future__ import annotations

from dataclasses import replace

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import Job
from perfmodel.placement.transformers.transformer_jobs import transformer_shape

#: Families whose configs state the size of a head apart from the width of the model.
_FAMILIES = frozenset(
    ("llama", "mistral", "mixtral", "nemotron", "qwen2", "qwen3", "qwen3_moe", "gpt_oss")
)
#: Widths that are divided, as far as a config has them.
_WIDTHS = ("intermediate_size", "moe_intermediate_size")


def rank_job(job: Job, ranks: int) -> Job:
    """Return what one of some tensor ranks carries out of a job in inference.

    Keys and values of which there are fewer heads than ranks are held by several.

    Raises
    ------
    InvalidPlacementError
        A model of another kind, or one that cannot be divided by so many.

    Examples
    --------
    >>> config = {"model_type": "llama", "num_attention_heads": 64, "num_key_value_heads": 8}
    >>> rank = rank_job(Job(hf_config={**config, "hidden_size": 8192}), 16).hf_config
    >>> rank["num_attention_heads"], rank["num_key_value_heads"], rank["head_dim"]
    (4, 1, 128)
    """
    config, shape = job.hf_config or {}, transformer_shape(job)
    if shape is None or config.get("model_type") not in _FAMILIES:
        raise InvalidPlacementError(
            "tensor parallelism in inference is answered for language models with a transformers "
            f"config of {', '.join(sorted(_FAMILIES))}, and {job.label} has none. Leave tensor "
            "out; pipeline works for any graph.",
            pointer="/placement/plan/tensor",
            allowed=("1",),
        )
    widths = {name: int(config[name]) for name in _WIDTHS if config.get(name)}
    widths.setdefault("intermediate_size", shape.ffn_size or 4 * shape.hidden_size)
    keys = shape.kv_heads or shape.heads
    uneven = [count for count in (shape.heads, *widths.values()) if count % ranks]
    if uneven or (keys % ranks and ranks % keys):
        raise InvalidPlacementError(
            f"tensor is {ranks}, but {shape.heads} heads, {keys} of keys and values, and "
            f"{' and '.join(map(str, widths.values()))} features of the inner layers are not "
            "divided evenly by it. Ask for a power of two that divides them.",
            pointer="/placement/plan/tensor",
        )
    own = {name: width // ranks for name, width in widths.items()}
    own |= {
        "num_attention_heads": shape.heads // ranks,
        "num_key_value_heads": max(1, keys // ranks),
        "head_dim": shape.head_size or shape.hidden_size // shape.heads,
        "vocab_size": -(-shape.vocabulary // ranks),
    }
    return replace(job, hf_config={**config, **own})
