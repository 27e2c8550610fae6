"""``{"hf_config": {...}}``: transformers models, built from their config without weights.

A few places in transformers branch on numbers: is this mask all ones, are several sequences
packed into one row, is there padding? A meta tensor cannot tell. The inputs made here are full,
unpacked, unpadded sequences, so the answers are known, and with them capture takes the same
branches as a real run. Real tensors are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from perfmodel.types import Mode
from perfmodel.zoo.bundle import ModelBundle, building_on
from perfmodel.zoo.transformers.architecture import build_architecture, load_config, make_config
from perfmodel.zoo.transformers.inputs import make_inputs


def build_huggingface(
    config: Mapping[str, Any] | str | Path,
    *,
    batch_size: int,
    sequence_length: int | None = None,
    mode: Mode = Mode.INFERENCE,
    device: str = "meta",
) -> ModelBundle:
    """Build a transformers model from its config, with one batch of full sequences.

    Nothing is downloaded and no remote code runs. The head is the first of ``architectures``,
    or the usual one of the ``model_type``: masked language model for BERT, causal for GPT-2 and
    Llama, sequence to sequence for T5, speech to text for Whisper, contrastive for CLIP,
    classification for ViT. Weights are fp32; the job's precision decides what the step uses.

    Parameters
    ----------
    batch_size : int
        Sequences (or images, or image-text pairs) in the batch, >= 1.
    sequence_length : int or None
        Text positions of a sample, in the encoder and in the decoder; None means the shorter of
        512 and what the model holds.
    mode : Mode
        Training adds labels, from which the model computes its own loss; a head without a
        known label gets the mean square of its outputs.

    Returns
    -------
    ModelBundle
        ``family`` is the ``model_type``.

    Raises
    ------
    UnknownModelError
        An unknown ``model_type`` or architecture.
    InvalidInputError
        A config that cannot be built, or a sequence that does not fit.
    """
    fields = load_config(config)
    hf_config = make_config(fields)
    answer_for_meta_tensors()
    with building_on(device):
        module = build_architecture(hf_config, fields.get("architectures"))
        inputs = make_inputs(
            module,
            batch_size=batch_size,
            sequence_length=sequence_length,
            training=mode is Mode.TRAINING,
        )
    return ModelBundle(
        module=module,
        args=(),
        kwargs=inputs.kwargs,
        loss=inputs.loss,
        family=str(hf_config.model_type),
        name=f"hf_config/{hf_config.model_type}",
        samples=batch_size,
        tokens_per_sample=inputs.tokens_per_sample,
    )


_DONE: list[str] = []


def answer_for_meta_tensors() -> None:
    """Wrap those places, once; a place that this transformers version lacks is passed over."""
    if _DONE:
        return
    masking = _module("transformers.masking_utils")
    _wrap(masking, "find_packed_sequence_indices", lambda position_ids: None)
    _wrap(masking, "fast_all", lambda tensor: True)
    models = _module("transformers.modeling_utils")
    _wrap(
        getattr(models, "PreTrainedModel", None),
        "warn_if_padding_and_no_attention_mask",
        lambda self, input_ids, attention_mask: None,
    )
    experts = _module("transformers.integrations.moe")
    # The shape rule of aten::_grouped_mm knows bf16 only, its kernels know more: other types
    # take the operator that transformers itself falls back to.
    _wrap(experts, "_can_use_grouped_mm", lambda input, weight, offs: False, spare=torch.bfloat16)
    _DONE.append("transformers")


def _wrap(
    owner: Any, name: str, answer: Callable[..., Any], *, spare: torch.dtype | None = None
) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        if tensors and tensors[0].is_meta and tensors[0].dtype is not spare:
            return answer(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
