"""The part of a transformer that one tensor rank holds, as a job of its own.

A rank has its part of the heads, of the inner width of every network and of the words, and all
layers. That is a smaller model of the same family, whose step is captured and predicted as that of
any other: what narrower products lose and what a host still has to call is in it. What ranks
exchange comes on top.

Reference: Shoeybi et al., Megatron-LM, 2019.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import Job
from perfmodel.placement.transformers.transformer_jobs import transformer_shape

#: Families whose heads may be of any size, whatever the width of the model: usually its part of
#: the width; and those whose configs have to state it.
_OF_THE_WIDTH = frozenset(
    (
        "cohere", "gpt_oss", "llama", "mistral", "mixtral", "nemotron", "olmo2", "phi3", "qwen2",
        "qwen2_moe", "qwen3", "qwen3_moe", "smollm3", "starcoder2",
    )
)  # fmt: skip
_STATED = frozenset(("gemma", "gemma2", "gemma3_text", "glm"))
#: Inner widths, as far as a config has them.
_WIDTHS = ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size")


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
    sizes = sizes_of(job)
    heads, keys = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    inner = {name: sizes[name] for name in _WIDTHS if name in sizes}
    uneven = [count for count in (heads, *inner.values()) if count % ranks]
    if uneven or (keys % ranks and ranks % keys):
        raise InvalidPlacementError(
            f"tensor is {ranks}, but {heads} heads, {keys} of keys and values, and "
            f"{' and '.join(map(str, inner.values()))} features of the inner layers are not "
            "divided evenly by it. Ask for a power of two that divides them.",
            pointer="/placement/plan/tensor",
        )
    own: dict[str, int | None] = {name: width // ranks for name, width in inner.items()}
    own |= {
        "num_attention_heads": heads // ranks,
        "num_key_value_heads": max(1, keys // ranks),
        "vocab_size": -(-sizes["vocab_size"] // ranks),
    }
    # A word that fills up may lie behind those of a rank.
    own |= {"head_dim": sizes["head_dim"], "pad_token_id": None}
    return replace(job, hf_config={**(job.hf_config or {}), **own})


def sizes_of(job: Job) -> dict[str, int]:
    """Return the sizes of a model that ranks can hold between them, by their names in configs.

    Raises
    ------
    InvalidPlacementError
        Another one, or one whose config does not state them.
    """
    config, shape = job.hf_config or {}, transformer_shape(job)
    family, known = str(config.get("model_type")), dict[str, Any]()
    if shape is not None:
        known = {
            "num_hidden_layers": shape.layers,
            "hidden_size": shape.hidden_size,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "intermediate_size": shape.ffn_size,
            "head_dim": shape.head_size,
            "vocab_size": shape.vocabulary,
        }
    known |= {name: config[name] for name in (*_SIZES, *_WIDTHS, "head_dim") if config.get(name)}
    if family in _OF_THE_WIDTH and known.keys() >= _SIZES:
        known.setdefault("head_dim", known["hidden_size"] // known["num_attention_heads"])
    needed = {*_SIZES, "head_dim", *_WIDTHS[: 1 + family.endswith("_moe")]}
    families = _OF_THE_WIDTH | _STATED
    if family not in families or not needed <= known.keys():
        raise InvalidPlacementError(
            "tensor parallelism in inference is answered for language models with a transformers "
            f"config of {', '.join(sorted(families))} that states their sizes, and {job.label} has "
            "none. Leave tensor out; pipeline works for any graph.",
            pointer="/placement/plan/tensor",
            allowed=("1",),
        )
    return {name: int(value) for name, value in known.items() if value}


_SIZES = frozenset(
    (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
        "vocab_size",
    )
)  # fmt: skip
