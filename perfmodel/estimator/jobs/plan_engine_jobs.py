"""Which jobs the equations for plans, fitted on causal language models, answer for."""

from __future__ import annotations

from perfmodel.graph.job import Job
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.types import Mode, Precision

_DECODERS = ("zoo/mpt", "zoo/megatron-gpt", "zoo/gpt", "zoo/opt")
_DECODER_TYPES = frozenset(
    (
        "gpt2", "opt", "gpt_neox", "llama", "mistral", "mixtral", "qwen2", "qwen3", "mpt", "gemma",
        "qwen3_moe", "gpt_oss", "deepseek_v3", "nemotron",
    )
)  # fmt: skip


def has_plan_engine(job: Job) -> bool:
    """Tell whether the equations for plans, fitted on language models, answer for a job.

    They were fitted on causal language models trained in 16 bits, all their parameters; the name or
    config says so.
    """
    if job.mode is not Mode.TRAINING or not job.trains_all:
        return False
    if job.arithmetic in (Precision.FP32, Precision.TF32):
        return False
    if (job.model or "").startswith(_DECODERS):
        return transformer_shape(job) is not None
    kind = str((job.hf_config or {}).get("model_type", ""))
    return kind in _DECODER_TYPES and transformer_shape(job) is not None
