"""Models that tables of clusters train, by the names that these give them.

Open models are those of the hub (:mod:`perfmodel.graph.hub_models`), whose parameters are counted
in a test. GPT-3 of 5, 20 and 175 billion parameters, and Nemotron of 8 and 22 billion, are those of
NVIDIA's NeMo recipes; the FLOP of a token that the tables state are theirs within 1 %.

Left out, with the reason: models of layers of two kinds, which no equation of plans describes.

Reference: NVIDIA/NeMo, ``nemo/collections/llm/gpt/model``, Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from perfmodel.graph.hub_models.names import hub_model

#: Names of the hub by letters and digits of the name in a table.
_OPEN: Mapping[str, str] = MappingProxyType(
    {
        "llama27b": "meta-llama/Llama-2-7b-hf",
        "llama7b": "meta-llama/Llama-2-7b-hf",
        "llama213b": "meta-llama/Llama-2-13b-hf",
        "llama13b": "meta-llama/Llama-2-13b-hf",
        "llama270b": "meta-llama/Llama-2-70b-hf",
        "llama70b": "meta-llama/Llama-2-70b-hf",
        "llama38b": "meta-llama/Meta-Llama-3-8B",
        "llama8b": "meta-llama/Meta-Llama-3-8B",
        "llama318b": "meta-llama/Llama-3.1-8B",
        "llama370b": "meta-llama/Meta-Llama-3-70B",
        "llama3170b": "meta-llama/Llama-3.1-70B",
        "llama3405b": "meta-llama/Llama-3.1-405B",
        "llama31405b": "meta-llama/Llama-3.1-405B",
        "grok1314b": "hpcai-tech/grok-1",
        "nemotron415b": "nvidia/Nemotron-4-15B-Base",
        "nemotron4340b": "nvidia/Nemotron-4-340B-Base",
        "nemotron340b": "nvidia/Nemotron-4-340B-Base",
        "qwen330ba3b": "Qwen/Qwen3-30B-A3B",
        "qwen3235ba22b": "Qwen/Qwen3-235B-A22B",
        "gptoss120b": "openai/gpt-oss-120b",
        "deepseekv3": "deepseek-ai/DeepSeek-V3",
    }
)


def _gpt(layers: int, width: int, heads: int) -> Mapping[str, Any]:
    sizes = {
        "num_layers": layers, "hidden_size": width, "num_heads": heads,
        "vocab_size": 51200, "max_positions": 2048,
    }  # fmt: skip
    return MappingProxyType({"model": "zoo/megatron-gpt", "model_kwargs": MappingProxyType(sizes)})


def _nemotron(layers: int, width: int, heads: int) -> Mapping[str, Any]:
    config = {
        "model_type": "nemotron", "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": heads, "intermediate_size": 4 * width,
        "vocab_size": 256000, "max_position_embeddings": 4096,
    }  # fmt: skip
    return MappingProxyType({"hf_config": MappingProxyType(config)})


_RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gpt35b": _gpt(24, 4096, 32),
        "gpt320b": _gpt(44, 6144, 48),
        "gpt3175b": _gpt(96, 12288, 96),
        "nemotron8b": _nemotron(32, 4096, 32),
        "nemotron22b": _nemotron(40, 6144, 48),
    }
)
#: Models that begin so, and why no equation describes them.
_UNLIKE: Mapping[str, str] = MappingProxyType(
    {
        "nemotron3nano": "layers of two kinds: state spaces and attention",
        "nemotron3super": "layers of two kinds: state spaces and attention",
        "nemotron3ultra": "layers of two kinds: state spaces and attention",
        "nemotron35": "layers of two kinds: state spaces and attention",
        "nemotron5h": "layers of two kinds: state spaces and attention",
        "qwen3next": "layers of two kinds: linear and full attention",
        "llama4": "layers of two kinds: with and without experts",
    }
)


def cluster_model(name: str, *, layers: int | None = None) -> Mapping[str, Any]:
    """Return the fields of a job that name a model of these tables.

    Parameters
    ----------
    name : str
        In any case, with any punctuation; brackets do not count.
    layers : int or None
        Of a model that was cut down to so many.

    Raises
    ------
    ValueError
        A model that is not known, or that no equation describes.

    Examples
    --------
    >>> cluster_model("LLAMA3-8B")["hf_config"]["num_hidden_layers"]
    32
    >>> cluster_model("Llama 3.1 405b", layers=7)["hf_config"]["num_hidden_layers"]
    7
    """
    key = re.sub(r"\(.*?\)|[^a-z0-9]", "", name.lower())
    for word, reason in _UNLIKE.items():
        if key.startswith(word):
            raise ValueError(f"the model has {reason}")
    if key in _RECIPES and layers is None:
        return _RECIPES[key]
    known = hub_model(_OPEN.get(key, ""))
    if known is None:
        raise ValueError(f"the sizes of the model {name!r} are not known")
    cut = {} if layers is None else {"num_hidden_layers": layers}
    return {"hf_config": {**known.config, **cut}}
