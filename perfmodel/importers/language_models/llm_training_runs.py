"""What published language model runs leave to the scripts beside them: sizes, batches, splits.

MaxText names its own models by their parameters. Those of a power of two follow from one rule:
with ``log2(scale) = 3 q + r`` the widths of a base model are doubled q times, the heads and the
inner width once more where r is above 0, the features once more where r is 2, and the layers q
times. What each was run with is in the scripts ``MaxText/configs/<device>/``: sequences of 2,048
tokens, a batch for each chip, a policy of recomputation, tensor ranks.

ModelLink trains Llamas and GPT on Ascend by the scripts ``examples/<model>/pretrain_*.sh``.

Left out: models of 1,160 billion parameters, which no script describes; GPT-3 on v5p, whose script
multiplies in 8 bits where the table says 16, and Llamas there, whose scripts differ in what they
compute again; and meshes that a plan cannot say (replicas of shards within one slice).

Reference: AI-Hypercomputer/maxtext, ``MaxText/configs`` and ``benchmarks``, Apache-2.0; Ascend's
ModelLink, ``examples``; the configurations that were published with the weights of Llama, Mistral,
Qwen and GPT-3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """How a model was trained on chips of one kind.

    Parameters
    ----------
    sequence_length : int
        Tokens.
    chip_batch : int or None
        Sequences for each chip; None where the table says how many tokens a step has.
    tensor, pipeline, virtual_stages : int
        Degrees; all other chips are replicas.
    micro_batch, global_batch : int or None
        Sequences, where the scripts state them in place of a chip's.
    zero_stage : int
        What the replicas share out.
    recompute : str
        ``"full"`` or ``"attention"``.
    offloads : bool
        What layers keep, or the optimizer's state, may lie in the memory of the host.
    """

    sequence_length: int
    chip_batch: int | None = None
    tensor: int = 1
    pipeline: int = 1
    virtual_stages: int = 1
    micro_batch: int | None = None
    global_batch: int | None = None
    zero_stage: int = 3
    recompute: str = "full"
    offloads: bool = False


def _split(
    sequence_length: int,
    tensor: int,
    pipeline: int,
    micro_batch: int,
    global_batch: int,
    *,
    virtual_stages: int = 1,
    zero_stage: int = 0,
) -> Run:
    """Return a run of ModelLink, which recomputes nothing in its examples."""
    return Run(
        sequence_length=sequence_length,
        tensor=tensor,
        pipeline=pipeline,
        micro_batch=micro_batch,
        global_batch=global_batch,
        virtual_stages=virtual_stages,
        zero_stage=zero_stage,
        recompute="none",
    )


def _llama(
    layers: int, width: int, heads: int, kv_heads: int, inner: int, words: int, **more: Any
) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "model_type": "llama",
            "num_hidden_layers": layers,
            "hidden_size": width,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "intermediate_size": inner,
            "vocab_size": words,
            "max_position_embeddings": 131072,
            **more,
        }
    )


def _mixtral(layers: int, width: int, heads: int, inner: int, words: int) -> Mapping[str, Any]:
    config = _llama(layers, width, heads, 8, inner, words, model_type="mixtral")
    return MappingProxyType({**config, "num_local_experts": 8, "num_experts_per_tok": 2})


def _gpt3(layers: int) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "model_type": "gpt2", "n_layer": layers, "n_embd": 12288, "n_head": 96,
            "n_positions": 2048, "vocab_size": 50304,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        }
    )  # fmt: skip


#: Transformers configs by the model's name without its framework, in lower case.
CONFIGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "llama-7b": _llama(32, 4096, 32, 32, 11008, 32000),
        "llama-13b": _llama(40, 5120, 40, 40, 13824, 32000),
        "llama-33b": _llama(60, 6656, 52, 52, 17920, 32000),
        "llama-65b": _llama(80, 8192, 64, 64, 22016, 32000),
        "llama2-34b": _llama(48, 8192, 64, 8, 22016, 32000),
        "codellama-34b": _llama(48, 8192, 64, 8, 22016, 32000),
        "qwen1.5-7b": _llama(32, 4096, 32, 32, 11008, 151936, model_type="qwen2"),
        "qwen1.5-14b": _llama(40, 5120, 40, 40, 13696, 152064, model_type="qwen2"),
        "gpt3-15b": _gpt3(8),
        "llama2-7b": _llama(32, 4096, 32, 32, 11008, 32000),
        "llama2-13b": _llama(40, 5120, 40, 40, 13824, 32000),
        "llama2-70b": _llama(80, 8192, 64, 8, 28672, 32000),
        "llama3-8b": _llama(32, 4096, 32, 8, 14336, 128256),
        "llama3-70b": _llama(80, 8192, 64, 8, 28672, 128256),
        "llama3.1-8b": _llama(32, 4096, 32, 8, 14336, 128256),
        "llama3.1-70b": _llama(80, 8192, 64, 8, 28672, 128256),
        "llama3.1-405b": _llama(126, 16384, 128, 8, 53248, 128256),
        "mistral-7b": _llama(32, 4096, 32, 8, 14336, 32000),
        "mixtral-8x7b": _mixtral(32, 4096, 32, 14336, 32000),
        "mixtral-8x22b": _mixtral(56, 6144, 48, 16384, 32768),
        "gpt3-175b": _gpt3(96),
        # 22b.sh of v4; heads of 256 and no gate, as usual there in 2023, give the 22 billion.
        "dense-22b": MappingProxyType(
            {
                "model_type": "gpt_neox", "num_hidden_layers": 48, "hidden_size": 6144,
                "num_attention_heads": 24, "intermediate_size": 24576, "vocab_size": 32000,
            }
        ),
    }
)  # fmt: skip

#: Models that this project's shapes do not describe, and why.
UNLIKE: Mapping[str, str] = MappingProxyType(
    {
        "gemma3": "layers of two kinds, with and without a window",
        "deepseek": "layers of two kinds, with compressed keys",
        "llama4": "layers of two kinds, with shared experts",
        "moe-": "sizes that only the source's text has",
        "dense-52b": "heads that are narrower together than its features",
    }
)

_BASE = {"features": 2048, "heads": 16, "inner": 7168, "layers": 16}
_DENSE = re.compile(r"dense-(\d+)b")
#: Runs by the device and the model.
RUNS: Mapping[tuple[str, str], Run] = MappingProxyType(
    {
        ("Ascend-910B", "gpt3-175b"): _split(2048, 8, 16, 2, 1024, virtual_stages=3),
        ("Ascend-910B", "gpt3-15b"): _split(2048, 8, 1, 1, 64),
        ("Ascend-910B", "llama-7b"): _split(2048, 1, 8, 4, 256),
        ("Ascend-910B", "llama-13b"): _split(2048, 1, 8, 1, 128),
        ("Ascend-910B", "llama-33b"): _split(2048, 4, 4, 4, 128),
        ("Ascend-910B", "llama-65b"): _split(2048, 8, 4, 2, 128),
        ("Ascend-910B", "llama2-7b"): _split(4096, 1, 2, 1, 256, zero_stage=1),
        ("Ascend-910B", "llama2-34b"): _split(4096, 8, 2, 2, 1024),
        ("Ascend-910B", "codellama-34b"): _split(4096, 8, 2, 2, 1024),
        ("Ascend-910B", "llama3-8b"): _split(8192, 8, 1, 2, 64),
        ("Ascend-910B", "qwen1.5-7b"): _split(8192, 8, 1, 2, 64),
        ("Ascend-910B", "qwen1.5-14b"): _split(8192, 4, 1, 1, 64, zero_stage=1),
        ("TPU-v4", "dense-22b"): Run(sequence_length=2048, chip_batch=13),
        ("TPU-v5e", "dense-16b"): Run(sequence_length=2048, chip_batch=6),
        ("TPU-v5e", "dense-32b"): Run(sequence_length=2048, chip_batch=4),
        ("TPU-v5e", "dense-64b"): Run(sequence_length=2048, chip_batch=2),
        ("TPU-v5e", "dense-128b"): Run(
            sequence_length=2048, chip_batch=1, tensor=16, recompute="attention", offloads=True
        ),
        ("TPU-v5p", "dense-32b"): Run(
            sequence_length=2048, chip_batch=7, tensor=4, recompute="attention"
        ),
        ("TPU-v5p", "dense-64b"): Run(
            sequence_length=2048, chip_batch=3, tensor=4, recompute="attention"
        ),
        ("TPU-v5p", "dense-128b"): Run(
            sequence_length=2048, chip_batch=1, tensor=8, recompute="attention"
        ),
        ("TPU-v5p", "dense-256b"): Run(
            sequence_length=2048, chip_batch=1, tensor=8, recompute="attention"
        ),
        ("TPU-v5p", "dense-512b"): Run(sequence_length=2048, chip_batch=2, tensor=8),
        ("TPU-v5p", "dense-1024b"): Run(sequence_length=2048, chip_batch=2, tensor=8),
        ("TPU-v6e", "gpt3-175b"): Run(sequence_length=2048, offloads=True),
        ("TPU-v6e", "llama2-70b"): Run(sequence_length=4096),
        ("TPU-v6e", "llama3.1-8b"): Run(sequence_length=8192, offloads=True),
        ("TPU-v6e", "llama3.1-70b"): Run(sequence_length=8192, offloads=True),
        ("TPU-v6e", "llama3.1-405b"): Run(sequence_length=8192, tensor=4, offloads=True),
        ("TPU-v6e", "mistral-7b"): Run(sequence_length=8192, offloads=True),
        ("TPU-v6e", "mixtral-8x7b"): Run(sequence_length=4096, offloads=True),
        ("TPU-v6e", "mixtral-8x22b"): Run(sequence_length=4096, offloads=True),
    }
)


def config_of(name: str) -> Mapping[str, Any]:
    """Return the transformers config of a model by the name that tables give it.

    Parameters
    ----------
    name : str
        In any case; ``"-MaxText"`` at its end does not count.

    Raises
    ------
    ValueError
        No sizes are known.

    Examples
    --------
    2^4 = 2^(3 + 1): everything doubled once, heads and inner width twice.

    >>> config = config_of("dense-16B")
    >>> [config[k] for k in ("num_hidden_layers", "hidden_size", "intermediate_size")]
    [32, 4096, 28672]
    """
    key = plain_name(name)
    for word, reason in UNLIKE.items():
        if key.startswith(word):
            raise ValueError(f"the model has {reason}")
    known = CONFIGS.get(key)
    if known is not None:
        return known
    scale = _DENSE.fullmatch(key)
    if scale is None:
        raise ValueError("the sizes of the model are not stated")
    return _scaled(int(scale[1]))


def plain_name(name: str) -> str:
    """Return the name of a model as the keys of this module write it."""
    return re.sub(r"-maxtext$", "", name.strip().lower())


def _scaled(scale: int) -> Mapping[str, Any]:
    power = scale.bit_length() - 1
    if 1 << power != scale:
        raise ValueError("the sizes of the model are not stated")
    times, rest = divmod(power, 3)
    heads = _BASE["heads"] << times + (rest > 0)
    return _llama(
        _BASE["layers"] << times,
        _BASE["features"] << times + (rest > 1),
        heads,
        heads,
        _BASE["inner"] << times + (rest > 0),
        32000,
        head_dim=128,
    )
