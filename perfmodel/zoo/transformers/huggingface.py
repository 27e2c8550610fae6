"""``{"hf_config": {...}}``: transformers models, built from their config without weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.types import Mode
from perfmodel.zoo.bundle import ModelBundle, building_on
from perfmodel.zoo.transformers.architecture import build_architecture, load_config, make_config
from perfmodel.zoo.transformers.inputs import make_inputs
from perfmodel.zoo.transformers.meta_answers import answer_for_meta_tensors


def build_huggingface(
    config: Mapping[str, Any] | str | Path,
    *,
    batch_size: int,
    sequence_length: int | None = None,
    mode: Mode = Mode.INFERENCE,
    device: str = "meta",
    seed: int = 0,
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
    with building_on(device, seed=seed):
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
