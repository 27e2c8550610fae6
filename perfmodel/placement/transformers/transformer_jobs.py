"""Read the dimensions of a transformer from a Job: reference workloads and transformers configs.

Fields that a config leaves out take the defaults of the transformers library. Left out: models of
two stacks (T5, Whisper), layers of several kinds (ViT hybrids, Switch), and state-space models;
for these the captured graph speaks (:mod:`.transformer_graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.zoo.references.language.sizes import GPT2, GPT3, MPT, OPT, OPT_OFFSET, Sizes

#: What transformers builds where no length is asked for.
_USUAL_LENGTH = 512

Config = Mapping[str, Any]
#: Reads the dimensions from a config and the tokens of a sample, where those are stated.
Reader = Callable[[Config, int | None], TransformerShape | None]


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


def _stack(
    sizes: tuple[int | None, ...],
    *,
    positions: int | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
    fixed: Config = MappingProxyType({}),
    **stated: Any,
) -> Reader:
    """Return a reader of configs of a family of stacks of equal layers.

    Parameters
    ----------
    sizes : tuple of int or None
        By :data:`_SIZES`, where a config leaves them out.
    positions : int or None
        Rows that the table of learned positions has beyond the positions; None where they are
        computed.
    names : mapping of str to str
        What the family calls otherwise.
    fixed : mapping
        What holds of all of it, where that is not :data:`_USUAL`.
    **stated
        What else the configs may state, with what holds where one leaves it out.
    """
    own = {**dict(zip(_SIZES, sizes, strict=True)), **stated}

    def read(config: Config, length: int | None) -> TransformerShape | None:
        found = {name: config.get(names.get(name, name)) for name in own}
        said = {name: value for name, value in found.items() if value is not None}
        c = {**_USUAL, **fixed, **own, **said}
        heads, layers = int(c["num_attention_heads"]), int(c["num_hidden_layers"])
        width, inner = int(c["hidden_size"]), c[c["inner_width"]]
        head_size = int(c["head_dim"] or width // heads)
        biases, experts = bool(c["attention_bias"]), int(c[c["expert_count"]])
        others = 2 * head_size if c["normed_heads"] else 0
        others += heads + experts if c["has_sinks"] else 0
        if c["word_embed_proj_dim"] not in (None, width):
            return None
        return TransformerShape(
            layers=layers,
            hidden_size=width,
            heads=heads,
            kv_heads=int(c["num_key_value_heads"] or heads),
            head_size=head_size,
            ffn_size=None if inner is None else int(inner),
            is_gated=c["is_gated"],
            experts=experts,
            experts_per_token=int(c["num_experts_per_tok"]),
            other_parameters=layers * others,
            sequence_length=_tokens(length, int(c["max_position_embeddings"])),
            vocabulary=int(c["vocab_size"]),
            position_count=0
            if positions is None
            else int(c["max_position_embeddings"]) + positions,
            has_attention_biases=biases,
            has_output_bias=biases and bool(c["has_output_bias"]),
            has_ffn_biases=bool(c["mlp_bias"]),
            norm_vectors=c["norm_vectors"],
            is_tied=bool(c["tie_word_embeddings"]),
            has_dropout=float(c["hidden_dropout_prob"]) > 0,
        )

    return read


#: Layers, width, heads, inner width (None: four times the width), positions and words.
_SIZES = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "vocab_size",
)  # fmt: skip

#: What holds of a family that does not state it: layers with biases, norms of scale and shift, and
#: a network of two matrices, whose output layer is the table of tokens.
_USUAL: Config = MappingProxyType(
    {
        "num_key_value_heads": None,
        "head_dim": None,
        "attention_bias": True,
        "has_output_bias": True,
        "mlp_bias": True,
        "is_gated": False,
        "norm_vectors": 2,
        "tie_word_embeddings": True,
        "hidden_dropout_prob": 0.0,
        "word_embed_proj_dim": None,
        # Under which names the width of a network and the number of experts stand.
        "inner_width": "intermediate_size",
        "expert_count": "num_local_experts",
        "num_local_experts": 1,
        "num_experts_per_tok": 1,
        # Norms over the features of each head, of queries and of keys.
        "normed_heads": False,
        # A number of each head that takes part in its softmax, and biases where experts are chosen.
        "has_sinks": False,
    }
)


#: Heads of keys and values, and the size of all; None: as many, and as the width says.
_OF_HEADS: Config = MappingProxyType({"num_key_value_heads": None, "head_dim": None})


def _llama_like(
    sizes: tuple[int, ...] = (32, 4096, 32, 11008, 2048, 32000), **family: Any
) -> Reader:
    """Return a reader of layers with a gate, one norm vector, rotary positions and no biases."""
    usual = dict.fromkeys(("attention_bias", "mlp_bias", "tie_word_embeddings"), False)
    more = {"num_local_experts": 1, "num_experts_per_tok": 1, **_OF_HEADS}
    fixed = {"is_gated": True, "norm_vectors": 1}
    return _stack(sizes, fixed=fixed, **{**usual, **more, **family})


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
        **dict(zip(_SIZES, (61, 7168, 128, 18432, 4096, 129280), strict=True)),
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
    }
)


def _bert_like(*, words: int, positions: int) -> Reader:
    """Return a reader of encoders with norms after the branches and a masked language model."""
    sizes = (12, 768, 12, 3072, positions, words)
    stack = _stack(sizes, positions=0, hidden_dropout_prob=0.1)

    def read(config: Config, length: int | None) -> TransformerShape | None:
        shape, scores = stack(config, length), _scores_words(config)
        if shape is None:
            return None
        # Table of token types; before the scores a product, a norm, and a bias for each word.
        # The norm behind the tables stands where others have one behind the last layer.
        width = shape.hidden_size
        types = int(config.get("type_vocab_size", 2)) * width
        beside = types + ((width + 3) * width + shape.vocabulary if scores else 0)
        return replace(shape, has_head=scores, other_parameters=beside)

    return read


def _scores_words(config: Config) -> bool:
    architecture = (config.get("architectures") or ["ForMaskedLM"])[0]
    return str(architecture).endswith(("ForMaskedLM", "LMHeadModel"))


_CONFIGS: Mapping[str, Reader] = MappingProxyType(
    {
        "gpt2": _stack(
            (12, 768, 12, None, 1024, 50257), positions=0, hidden_dropout_prob=0.1,
            names={
                "num_hidden_layers": "n_layer", "hidden_size": "n_embd",
                "num_attention_heads": "n_head", "intermediate_size": "n_inner",
                "max_position_embeddings": "n_positions", "hidden_dropout_prob": "resid_pdrop",
            },
        ),
        "opt": _stack(
            (12, 768, 12, 3072, 2048, 50272), positions=OPT_OFFSET, hidden_dropout_prob=0.1,
            names={"intermediate_size": "ffn_dim", "hidden_dropout_prob": "dropout"},
            word_embed_proj_dim=None,
        ),
        "gpt_neox": _stack((44, 6144, 64, 24576, 2048, 50432), tie_word_embeddings=False),
        # Networks of two matrices without biases, and norms of scale and shift.
        "nemotron": _stack(
            (32, 6144, 48, 24576, 4096, 256000), tie_word_embeddings=False, **_OF_HEADS,
            fixed={"attention_bias": False, "mlp_bias": False},
        ),
        "llama": _llama_like(),
        "mistral": _llama_like((32, 4096, 32, 14336, 131072, 32000), num_key_value_heads=8),
        "mixtral": _llama_like(
            (32, 4096, 32, 14336, 131072, 32000), num_key_value_heads=8, num_local_experts=8,
            num_experts_per_tok=2,
        ),
        "qwen2": _llama_like(
            (32, 4096, 32, 22016, 32768, 151936), attention_bias=True, has_output_bias=False
        ),
        "qwen3": _llama_like(
            (32, 4096, 32, 22016, 32768, 151936), head_dim=128, normed_heads=True
        ),
        "qwen3_moe": _llama_like(
            (24, 2048, 32, 11008, 32768, 151936), num_key_value_heads=4, normed_heads=True,
            inner_width="moe_intermediate_size", moe_intermediate_size=768,
            expert_count="num_experts", num_experts=128, num_experts_per_tok=8,
        ),
        "gpt_oss": _llama_like(
            (36, 2880, 64, 2880, 131072, 201088), num_key_value_heads=8, head_dim=64,
            num_local_experts=128, num_experts_per_tok=4, attention_bias=True, mlp_bias=True,
            has_sinks=True,
        ),
        "deepseek_v3": _deepseek_v3,
        "bert": _bert_like(words=30522, positions=512),
        "roberta": _bert_like(words=50265, positions=512),
    }
)  # fmt: skip
