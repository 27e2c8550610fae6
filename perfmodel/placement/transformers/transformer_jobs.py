"""Read the dimensions of a transformer from a Job: reference workloads and transformers configs.

Fields that a config leaves out take the defaults of the transformers library. Left out: models of
two stacks (T5, Whisper), layers of several kinds (ViT hybrids, Switch), and state-space models;
for these the captured graph speaks (:mod:`.transformer_graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.zoo.references.language.sizes import (
    GPT2,
    GPT3,
    MPT,
    OPT,
    OPT_OFFSET,
    Sizes,
)

#: What transformers builds where no length is asked for.
_USUAL_LENGTH = 512

Config = Mapping[str, Any]


def transformer_shape(job: Job) -> TransformerShape | None:
    """Return the dimensions of a job's model.

    Returns
    -------
    TransformerShape or None
        None where the job names no transformer of one stack of equal layers.

    Examples
    --------
    >>> shape = transformer_shape(Job(model="zoo/mpt", model_kwargs={"size": "7b"}))
    >>> shape.layers, shape.hidden_size, shape.sequence_length
    (32, 4096, 2048)
    """
    try:
        if job.hf_config is not None:
            return _from_config(job.hf_config, job.sequence_length)
        if job.model is not None:
            reader = _WORKLOADS.get(job.model.removeprefix("zoo/"))
            return reader(job) if reader else None
    except (KeyError, TypeError, ValueError, ArithmeticError, InvalidInputError):
        # What cannot be built is refused where the model is built, with its pointer.
        return None
    return None


def _megatron(job: Job) -> TransformerShape:
    sizes = job.model_kwargs
    positions = int(sizes.get("max_positions", 1024))
    return TransformerShape(
        layers=int(sizes.get("num_layers", 24)),
        hidden_size=int(sizes.get("hidden_size", 1024)),
        heads=int(sizes.get("num_heads", 16)),
        sequence_length=job.sequence_length or positions,
        vocabulary=int(sizes.get("vocab_size", 51200)),
        position_count=positions,
        has_dropout=True,
    )


def _sized(
    known: Sizes, usual: str, words: int, positions: int | None, *, dropout: bool, offset: int = 0
) -> Callable[[Job], TransformerShape]:
    """Return a reader of models known by size; positions None means as many as tokens."""

    def read(job: Job) -> TransformerShape:
        sizes = job.model_kwargs
        layers, width, heads = known[sizes.get("size", usual)]
        length = job.sequence_length or positions or 2048
        return TransformerShape(
            layers=int(sizes.get("num_layers") or layers),
            hidden_size=width,
            heads=heads,
            sequence_length=length,
            vocabulary=int(sizes.get("vocab_size", words)),
            position_count=(positions or length) + offset,
            has_dropout=dropout,
        )

    return read


_WORKLOADS: Mapping[str, Callable[[Job], TransformerShape]] = MappingProxyType(
    {
        "megatron-gpt": _megatron,
        "mpt": _sized(MPT, "125m", 50368, None, dropout=False),
        "gpt2": _sized(GPT2, "small", 50257, 1024, dropout=True),
        "gpt3": _sized(GPT3, "xl", 50257, 2048, dropout=True),
        "opt": _sized(OPT, "125m", 50272, 2048, dropout=True, offset=OPT_OFFSET),
    }
)


def _from_config(config: Config, length: int | None) -> TransformerShape | None:
    reader = _CONFIGS.get(_model_type(config))
    return None if reader is None else reader(config, length)


def _model_type(config: Config) -> str:
    """Return the model type, read off the architecture where it is not stated."""
    if config.get("model_type"):
        return str(config["model_type"])
    architecture = (config.get("architectures") or [""])[0].lower()
    found = [name for name in _CONFIGS if architecture.startswith(name.replace("_", ""))]
    return max(found, key=len, default="")


def _tokens(length: int | None, positions: int) -> int:
    return length or min(_USUAL_LENGTH, positions)


def _llama_like(**usual: Any) -> Callable[[Config, int | None], TransformerShape]:
    """Return a reader of configs whose layers have a gate, one norm vector and rotary positions."""

    def read(config: Config, length: int | None) -> TransformerShape:
        c = {**_LLAMA, **usual, **{k: v for k, v in config.items() if v is not None}}
        heads, layers = int(c["num_attention_heads"]), int(c["num_hidden_layers"])
        head_size = int(c.get("head_dim") or int(c["hidden_size"]) // heads)
        biases, experts = bool(c["attention_bias"]), int(c[c["expert_count"]])
        others = 2 * head_size if c["normed_heads"] else 0
        others += heads + experts if c["has_sinks"] else 0
        return TransformerShape(
            layers=layers,
            hidden_size=int(c["hidden_size"]),
            heads=heads,
            kv_heads=int(c.get("num_key_value_heads") or heads),
            head_size=head_size,
            ffn_size=int(c[c["inner_width"]]),
            is_gated=True,
            experts=experts,
            experts_per_token=int(c.get("num_experts_per_tok", 1)),
            other_parameters=layers * others,
            sequence_length=_tokens(length, int(c["max_position_embeddings"])),
            vocabulary=int(c["vocab_size"]),
            has_attention_biases=biases,
            has_output_bias=biases and bool(c["has_output_bias"]),
            has_ffn_biases=bool(c.get("mlp_bias", False)),
            norm_vectors=1,
            is_tied=bool(c["tie_word_embeddings"]),
        )

    return read


_LLAMA: Config = MappingProxyType(
    {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "max_position_embeddings": 2048,
        "vocab_size": 32000,
        "attention_bias": False,
        "has_output_bias": True,
        "tie_word_embeddings": False,
        # Under which names the width of a network and the number of experts stand.
        "inner_width": "intermediate_size",
        "expert_count": "num_local_experts",
        "num_local_experts": 1,
        # Norms over the features of each head, of queries and of keys.
        "normed_heads": False,
        # A number of each head that takes part in its softmax, and biases where experts are chosen.
        "has_sinks": False,
    }
)


def _deepseek_v3(config: Config, length: int | None) -> TransformerShape:
    """Read keys and values from a narrow vector, and experts beside one that all tokens share.

    The few first layers without experts have a wide network, which counts as that of all layers.
    """
    c = {**_DEEPSEEK, **{k: v for k, v in config.items() if v is not None}}
    width, heads = int(c["hidden_size"]), int(c["num_attention_heads"])
    rope, plain, value = (
        int(c[name]) for name in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    rank, inner = int(c["kv_lora_rank"]), int(c["moe_intermediate_size"])
    query_rank = int(c["q_lora_rank"]) if config.get("q_lora_rank", 0) is not None else 0
    queries = (width + heads * (rope + plain)) * query_rank or width * heads * (rope + plain)
    keys = width * (rank + rope) + rank * heads * (plain + value)
    layers, dense = int(c["num_hidden_layers"]), _dense_layers(c)
    shared = (layers - dense) * int(c["n_shared_experts"]) * 3 * width * inner
    beside = shared + dense * 3 * width * int(c["intermediate_size"])
    return TransformerShape(
        layers=layers,
        mixture_layers=layers - dense,
        hidden_size=width,
        heads=heads,
        head_size=(rope + plain + value) // 2,
        ffn_size=inner,
        is_gated=True,
        experts=int(c["n_routed_experts"]),
        experts_per_token=int(c["num_experts_per_tok"]),
        sequence_length=_tokens(length, int(c["max_position_embeddings"])),
        vocabulary=int(c["vocab_size"]),
        has_attention_biases=False,
        has_output_bias=False,
        has_ffn_biases=False,
        norm_vectors=1,
        is_tied=bool(c.get("tie_word_embeddings", False)),
        own_weights=queries + keys + heads * value * width + beside // layers,
        other_parameters=beside % layers,
    )


def _dense_layers(config: Config) -> int:
    """Return how many layers have no experts: the first ones; at least one has."""
    layers = int(config["num_hidden_layers"])
    return min(int(config["first_k_dense_replace"]), layers - 1)


_DEEPSEEK: Config = MappingProxyType(
    {
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "intermediate_size": 18432,
        "first_k_dense_replace": 3,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": 4096,
        "vocab_size": 129280,
    }
)


def _gpt2(config: Config, length: int | None) -> TransformerShape:
    positions = int(config.get("n_positions", 1024))
    inner = config.get("n_inner")
    return TransformerShape(
        layers=int(config.get("n_layer", 12)),
        hidden_size=int(config.get("n_embd", 768)),
        heads=int(config.get("n_head", 12)),
        ffn_size=None if inner is None else int(inner),
        sequence_length=_tokens(length, positions),
        vocabulary=int(config.get("vocab_size", 50257)),
        position_count=positions,
        has_dropout=float(config.get("resid_pdrop", 0.1)) > 0,
    )


def _opt(config: Config, length: int | None) -> TransformerShape | None:
    width = int(config.get("hidden_size", 768))
    positions = int(config.get("max_position_embeddings", 2048))
    if config.get("word_embed_proj_dim", width) != width:
        return None
    return TransformerShape(
        layers=int(config.get("num_hidden_layers", 12)),
        hidden_size=width,
        heads=int(config.get("num_attention_heads", 12)),
        ffn_size=int(config.get("ffn_dim", 3072)),
        sequence_length=_tokens(length, positions),
        vocabulary=int(config.get("vocab_size", 50272)),
        position_count=positions + OPT_OFFSET,
        has_dropout=float(config.get("dropout", 0.1)) > 0,
    )


def _gpt_neox(config: Config, length: int | None) -> TransformerShape:
    return TransformerShape(
        layers=int(config.get("num_hidden_layers", 44)),
        hidden_size=int(config.get("hidden_size", 6144)),
        heads=int(config.get("num_attention_heads", 64)),
        ffn_size=int(config.get("intermediate_size", 24576)),
        sequence_length=_tokens(length, int(config.get("max_position_embeddings", 2048))),
        vocabulary=int(config.get("vocab_size", 50432)),
        is_tied=bool(config.get("tie_word_embeddings", False)),
    )


def _nemotron(config: Config, length: int | None) -> TransformerShape:
    """Read networks of two matrices without biases, and norms of scale and shift."""
    width, heads = int(config.get("hidden_size", 6144)), int(config.get("num_attention_heads", 48))
    return TransformerShape(
        layers=int(config.get("num_hidden_layers", 32)),
        hidden_size=width,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or width // heads),
        ffn_size=int(config.get("intermediate_size", 24576)),
        sequence_length=_tokens(length, int(config.get("max_position_embeddings", 4096))),
        vocabulary=int(config.get("vocab_size", 256000)),
        has_attention_biases=False,
        has_output_bias=False,
        has_ffn_biases=False,
        is_tied=bool(config.get("tie_word_embeddings", False)),
    )


def _bert_like(
    *, vocabulary: int, positions: int, token_types: int
) -> Callable[[Config, int | None], TransformerShape]:
    """Return a reader of encoders with norms after the branches and a masked language model."""

    def read(config: Config, length: int | None) -> TransformerShape:
        width = int(config.get("hidden_size", 768))
        words = int(config.get("vocab_size", vocabulary))
        places = int(config.get("max_position_embeddings", positions))
        scores = _scores_words(config)
        # Table of token types; before the scores a product, a norm, and a bias for each word.
        # The norm behind the tables stands where others have one behind the last layer.
        types = int(config.get("type_vocab_size", token_types)) * width
        return TransformerShape(
            layers=int(config.get("num_hidden_layers", 12)),
            hidden_size=width,
            heads=int(config.get("num_attention_heads", 12)),
            ffn_size=int(config.get("intermediate_size", 3072)),
            sequence_length=_tokens(length, places),
            vocabulary=words,
            position_count=places,
            has_head=scores,
            has_dropout=float(config.get("hidden_dropout_prob", 0.1)) > 0,
            other_parameters=types + ((width + 3) * width + words if scores else 0),
        )

    return read


def _scores_words(config: Config) -> bool:
    architecture = (config.get("architectures") or ["ForMaskedLM"])[0]
    return str(architecture).endswith(("ForMaskedLM", "LMHeadModel"))


_CONFIGS: Mapping[str, Callable[[Config, int | None], TransformerShape | None]] = MappingProxyType(
    {
        "gpt2": _gpt2,
        "opt": _opt,
        "gpt_neox": _gpt_neox,
        "nemotron": _nemotron,
        "llama": _llama_like(),
        "mistral": _llama_like(
            intermediate_size=14336, num_key_value_heads=8, max_position_embeddings=131072
        ),
        "mixtral": _llama_like(
            intermediate_size=14336,
            num_key_value_heads=8,
            max_position_embeddings=131072,
            num_local_experts=8,
            num_experts_per_tok=2,
        ),
        "qwen2": _llama_like(
            intermediate_size=22016,
            vocab_size=151936,
            max_position_embeddings=32768,
            attention_bias=True,
            has_output_bias=False,
        ),
        "qwen3": _llama_like(
            intermediate_size=22016,
            vocab_size=151936,
            max_position_embeddings=32768,
            head_dim=128,
            normed_heads=True,
        ),
        "qwen3_moe": _llama_like(
            num_hidden_layers=24,
            hidden_size=2048,
            num_key_value_heads=4,
            moe_intermediate_size=768,
            num_experts=128,
            num_experts_per_tok=8,
            vocab_size=151936,
            max_position_embeddings=32768,
            normed_heads=True,
            inner_width="moe_intermediate_size",
            expert_count="num_experts",
        ),
        "gpt_oss": _llama_like(
            num_hidden_layers=36,
            hidden_size=2880,
            num_attention_heads=64,
            num_key_value_heads=8,
            head_dim=64,
            intermediate_size=2880,
            num_local_experts=128,
            num_experts_per_tok=4,
            vocab_size=201088,
            max_position_embeddings=131072,
            attention_bias=True,
            mlp_bias=True,
            has_sinks=True,
        ),
        "deepseek_v3": _deepseek_v3,
        "bert": _bert_like(vocabulary=30522, positions=512, token_types=2),
        "roberta": _bert_like(vocabulary=50265, positions=512, token_types=2),
    }
)
