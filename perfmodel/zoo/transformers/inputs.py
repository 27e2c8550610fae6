"""Inputs and labels of a transformers model, from its config.

A sequence is full: no padding, and therefore no attention mask, which for a full batch changes
nothing but would hide the causal fast path of the attention operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from perfmodel.errors import InvalidInputError
from perfmodel.zoo.losses import FeatureLoss, OwnLoss

#: Sequence length where a job does not give one and the model allows at least that.
DEFAULT_SEQUENCE_LENGTH = 512
_DEFAULT_IMAGE_SIZE = 224
#: Ten seconds of sound at 16 kHz.
_DEFAULT_WAVEFORM = 160_000

#: Model types whose code walks over the sequence position by position where no special kernel is
#: installed, and the length they get by default: each position adds operators to the graph.
_SEQUENTIAL_TYPES = frozenset({"mamba", "falcon_mamba", "jamba", "rwkv"})
SEQUENTIAL_LENGTH = 64


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Keyword inputs of a transformers model.

    Parameters
    ----------
    tokens_per_sample : int or None
        Text positions of one sample, encoder and decoder together.
    """

    kwargs: Mapping[str, Any]
    loss: Callable[[Any], torch.Tensor]
    tokens_per_sample: int | None


def make_inputs(
    module: Any, *, batch_size: int, sequence_length: int | None, training: bool
) -> ModelInputs:
    """Make the inputs of one step on the default device.

    Parameters
    ----------
    sequence_length : int or None
        Text positions of each sample, in the encoder and in the decoder; None means the shorter
        of 512 (64 for a model that walks position by position) and what the position embeddings
        hold.

    Raises
    ------
    InvalidInputError
        A sequence longer than the position embeddings, one for a model without text, or a model
        whose inputs are not known.
    """
    takes = inspect.signature(module.forward).parameters
    try:
        inputs = _MainInputs(module, batch_size, sequence_length, takes)
        kwargs = inputs.make(training)
        labels = _labels(module, inputs, takes) if training else None
    except AttributeError as error:  # a config without the field that says how long an input is
        raise _unknown_inputs(module, str(error)) from error
    if inputs.is_encoder_decoder and labels is None:
        # Labels shifted by one are what the decoder reads otherwise.
        kwargs["decoder_input_ids"] = inputs.token_ids()
    if "use_cache" in takes:
        kwargs["use_cache"] = False
    tokens = inputs.tokens_per_sample
    if sequence_length is not None and tokens is None:
        raise InvalidInputError(
            f"{type(module).__name__} reads no text; leave sequence_length out.",
            pointer="/job/sequence_length",
        )
    loss = FeatureLoss() if labels is None else OwnLoss()
    return ModelInputs(kwargs={**kwargs, **(labels or {})}, loss=loss, tokens_per_sample=tokens)


def _unknown_inputs(module: Any, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"The inputs of {type(module).__name__} ({what}) are not known here; text, "
        "image, sound, image-text contrastive and speech-to-text models are. For another "
        "kind, capture the module yourself and register its graph.",
        pointer="/job/hf_config",
    )


class _MainInputs:
    """What a model reads, by the name of its main input."""

    def __init__(
        self, module: Any, batch_size: int, sequence_length: int | None, takes: Mapping[str, Any]
    ) -> None:
        self.module = module
        self.batch_size = batch_size
        self.takes = takes
        self.config = module.config
        self.text_config = module.config.get_text_config()
        # Detectors decode queries of their own.
        self.is_encoder_decoder = module.config.is_encoder_decoder and "decoder_input_ids" in takes
        self.length = _text_length(module, sequence_length)
        self.tokens_per_sample: int | None = None

    def make(self, training: bool) -> dict[str, Any]:
        name = self.module.main_input_name
        if name == "input_ids":
            kwargs = self._contrastive(training) if "return_loss" in self.takes else self._text()
        elif name == "pixel_values" and "input_ids" not in self.takes:
            kwargs = {"pixel_values": self.images()}
        elif name == "input_features" and self.is_encoder_decoder:
            kwargs = {"input_features": self._spectrogram()}
        elif name == "input_values" and hasattr(self.config, "conv_stride"):
            kwargs = {"input_values": self._waveform()}
        else:
            raise _unknown_inputs(self.module, name)
        if self.is_encoder_decoder:
            self.tokens_per_sample = (self.tokens_per_sample or 0) + self.length
        return kwargs

    def token_ids(self) -> torch.Tensor:
        return torch.randint(self.text_config.vocab_size, (self.batch_size, self.length))

    def _text(self) -> dict[str, Any]:
        if "pixel_values" in self.takes:
            raise InvalidInputError(
                f"{type(self.module).__name__} mixes images into its text, which is not built "
                "from a config alone. Give its text_config or its vision_config as hf_config.",
                pointer="/job/hf_config",
            )
        self.tokens_per_sample = self.length
        return {"input_ids": self.token_ids()}

    def _contrastive(self, training: bool) -> dict[str, Any]:
        self.tokens_per_sample = self.length
        loss = {"return_loss": True} if training else {}
        return {"input_ids": self.token_ids(), "pixel_values": self.images(), **loss}

    def images(self) -> torch.Tensor:
        config = getattr(self.config, "vision_config", self.config)
        size = getattr(config, "image_size", None) or _DEFAULT_IMAGE_SIZE
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        channels = getattr(config, "num_channels", None) or 3
        return torch.randn(self.batch_size, channels, height, width)

    def _spectrogram(self) -> torch.Tensor:
        # The encoder's second convolution has stride 2: two frames for each source position.
        frames = 2 * self.config.max_source_positions
        return torch.randn(self.batch_size, self.config.num_mel_bins, frames)

    def _waveform(self) -> torch.Tensor:
        # Which frames are blanked in training follows from values, and costs next to nothing.
        self.config.apply_spec_augment = False
        return torch.randn(self.batch_size, _DEFAULT_WAVEFORM)


def _labels(module: Any, inputs: _MainInputs, takes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the labels with which the model computes its loss, or None where it has none."""
    name = type(module).__name__
    batch = inputs.batch_size
    classes = int(getattr(module.config, "num_labels", 2))
    if "return_loss" in takes:
        return {}
    if name.endswith(("ForSequenceClassification", "ForImageClassification")):
        one_score = torch.randn(batch) if classes == 1 else torch.randint(classes, (batch,))
        return {"labels": one_score}
    if name.endswith("ForTokenClassification"):
        return {"labels": torch.randint(classes, (batch, inputs.length))}
    if name.endswith("ForQuestionAnswering") and "start_positions" in takes:
        ends = ("start_positions", "end_positions")
        return {end: torch.randint(inputs.length, (batch,)) for end in ends}
    if name.endswith("ForPreTraining") and "next_sentence_label" in takes:
        return {"labels": inputs.token_ids(), "next_sentence_label": torch.randint(2, (batch,))}
    if name.endswith("ForSemanticSegmentation"):
        return {"labels": torch.randint(classes, (batch, *inputs.images().shape[2:]))}
    language = ("LM", "LMHeadModel", "MTModel", "ForConditionalGeneration")
    if name.endswith(language) and "labels" in takes and inputs.tokens_per_sample is not None:
        return {"labels": inputs.token_ids()}
    return None


def _text_length(module: Any, sequence_length: int | None) -> int:
    most = _longest(module)
    if sequence_length is None:
        sequential = module.config.model_type in _SEQUENTIAL_TYPES
        usual = SEQUENTIAL_LENGTH if sequential else DEFAULT_SEQUENCE_LENGTH
        return min(usual, most or usual)
    learned = _learned_positions(module)
    if learned is not None and sequence_length > learned:
        raise InvalidInputError(
            f"sequence_length is {sequence_length}, but {type(module).__name__} has learned "
            f"embeddings for {learned} positions only. Shorten it, or raise the config's "
            "max_position_embeddings.",
            pointer="/job/sequence_length",
        )
    return sequence_length


def _longest(module: Any) -> int | None:
    config = module.config.get_text_config()
    fields = ("max_target_positions", "max_position_embeddings", "max_seq_len")
    known = [int(most) for f in fields if (most := getattr(config, f, None))]
    learned = _learned_positions(module)
    return min([*known[:1], *([learned] if learned is not None else [])], default=None)


def _learned_positions(module: Any) -> int | None:
    """Return the positions that the shortest learned text-position table holds, if any."""
    encoder_reads_text = module.main_input_name == "input_ids"
    tables = [
        part.num_embeddings - (0 if part.padding_idx is None else part.padding_idx + 1)
        for path, part in module.named_modules()
        if isinstance(part, torch.nn.Embedding)
        and _is_text_position_table(path)
        and (encoder_reads_text or "encoder" not in path.split("."))
    ]
    return min(tables, default=None)


def _is_text_position_table(path: str) -> bool:
    leaf = path.rpartition(".")[2]
    return ("position" in leaf or leaf == "wpe") and "vision" not in path and "relative" not in leaf
