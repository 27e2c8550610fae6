"""``zoo/<name>``: the register of reference workloads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.graph.hub_models.spoken_names import suggested_models
from perfmodel.zoo.size_check import MOST_LAYERS

if TYPE_CHECKING:
    import torch

    from perfmodel.zoo.bundle import ModelBundle


@dataclass(frozen=True, kw_only=True)
class Batch:
    """How much input a workload is built for.

    Parameters
    ----------
    sequence_length : int or None
        Tokens per sample; None means the workload's default.
    """

    size: int
    sequence_length: int | None = None

    def tokens(self, default: int, *, most: int | None = None) -> int:
        """Return the sequence length, or a default where none was asked for.

        Parameters
        ----------
        most : int or None
            Positions that the model has embeddings for.
        """
        if self.sequence_length is None:
            return default
        if most is not None and self.sequence_length > most:
            raise InvalidInputError(
                f"sequence_length is {self.sequence_length}, but the model has {most} positions.",
                pointer="/job/sequence_length",
            )
        return self.sequence_length


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a workload function returns: the moving parts of a bundle.

    Parameters
    ----------
    args : tuple
        Positional inputs, batch first.
    loss : callable
        From the output of ``module`` to a scalar.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    loss: Callable[[Any], torch.Tensor]
    kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    tokens_per_sample: int | None = None


@dataclass(frozen=True, slots=True)
class ReferenceWorkload:
    """One entry of the register.

    Parameters
    ----------
    family : str
        Group for leave-family-out evaluation.
    location : str
        ``"module:function"`` below ``perfmodel.zoo.references``, imported on first use.
    """

    family: str
    location: str

    def function(self) -> Callable[..., Parts]:
        """Import ``build(batch, **model_kwargs)``, which makes the parts on the default device."""
        module, _, name = self.location.partition(":")
        home = import_module(f"perfmodel.zoo.references.{module}")
        function: Callable[..., Parts] = getattr(home, name)
        return function


#: Family and place of every reference workload. A new one is a function and a line here.
_WORKLOADS = {
    "bert-base-squad": ("bert", "language.bert:bert_base_squad"),
    "bert-large-squad": ("bert", "language.bert:bert_large_squad"),
    "cyclegan": ("cyclegan", "vision.cyclegan:cyclegan"),
    "dlrm": ("dlrm", "recommendation:dlrm"),
    "deepspeech2": ("deepspeech2", "audio.deepspeech2:deepspeech2"),
    "faster-rcnn": ("rcnn", "vision.rcnn:faster_rcnn"),
    "gnmt": ("gnmt", "language.gnmt:gnmt"),
    "gpt2": ("gpt2", "language.language_models:gpt2"),
    "gpt2-decode": ("gpt2", "language.decoding:gpt2_decode"),
    "gpt3": ("gpt2", "language.language_models:gpt3"),
    "keypoint-rcnn": ("rcnn", "vision.rcnn:keypoint_rcnn"),
    "lstm-lm": ("lstm", "language.recurrent:lstm_lm"),
    "mask-rcnn": ("rcnn", "vision.rcnn:mask_rcnn"),
    "megatron-gpt": ("gpt2", "language.language_models:megatron_gpt"),
    "mlp": ("mlp", "perceptron:mlp"),
    "mpt": ("mpt", "language.language_models:mpt"),
    "ncf": ("ncf", "recommendation:ncf"),
    "operator-attention": ("operator", "operators:attention"),
    "operator-batch-norm": ("operator", "operators:batch_norm"),
    "operator-convolution": ("operator", "operators:convolution"),
    "operator-embedding": ("operator", "operators:embedding"),
    "operator-layer-norm": ("operator", "operators:layer_norm"),
    "operator-linear": ("operator", "operators:linear"),
    "operator-max-pool": ("operator", "operators:max_pool"),
    "operator-pointwise": ("operator", "operators:pointwise"),
    "opt": ("opt", "language.language_models:opt"),
    "recommender-autoencoder": ("autoencoder", "recommendation:recommender_autoencoder"),
    "resnet18-cifar": ("resnet", "vision.residual:resnet18_cifar"),
    "resnet50-v1.5": ("resnet", "vision.residual:resnet50_v1_5"),
    "retinanet": ("retinanet", "vision.retinanet:retinanet"),
    "sd15-unet": ("sd15", "vision.diffusion:sd15_unet"),
    "sdxl-unet": ("sdxl", "vision.diffusion:sdxl_unet"),
    "ssd300-resnet50": ("ssd", "vision.ssd:ssd300_resnet50"),
    "switch": ("switch", "language.switch:switch"),
    "tacotron2": ("tacotron2", "audio.tacotron2:tacotron2"),
    "transformer-translation": ("transformer", "language.translation:transformer_translation"),
    "transformer-xl-base": ("transformer-xl", "language.transformer_xl:transformer_xl_base"),
    "transformer-xl-large": ("transformer-xl", "language.transformer_xl:transformer_xl_large"),
    "vgg": ("vgg", "vision.vgg:vgg"),
    "waveglow": ("waveglow", "audio.waveglow:waveglow"),
    "yolov3": ("yolo", "vision.yolo:yolov3"),
}
REGISTER: Mapping[str, ReferenceWorkload] = MappingProxyType(
    {name: ReferenceWorkload(*row) for name, row in _WORKLOADS.items()}
)


def reference_names() -> list[str]:
    """Return the name of every reference workload, without prefix, sorted."""
    return sorted(REGISTER)


def build_reference(
    name: str,
    model_kwargs: Mapping[str, Any] | None = None,
    *,
    batch_size: int,
    sequence_length: int | None = None,
    device: str = "meta",
) -> ModelBundle:
    """Build a reference workload and one batch of its inputs.

    Parameters
    ----------
    name : str
        Without the ``zoo/`` prefix.
    sequence_length : int or None
        Tokens per sample; None means the workload's default.

    Raises
    ------
    UnknownModelError
        No such workload; carries the nearest names.
    InvalidInputError
        An argument that the workload does not take, or a sequence length where it has none.
    """
    from perfmodel.zoo.bundle import ModelBundle, building_on

    check_reference(name)
    workload = REGISTER[name]
    function = workload.function()
    _check_arguments(name, function, model_kwargs or {})
    batch = Batch(size=batch_size, sequence_length=sequence_length)
    with building_on(device):
        try:
            parts = function(batch, **(model_kwargs or {}))
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            raise InvalidInputError(
                f"zoo/{name} cannot be built with {dict(model_kwargs or {})}: {error}",
                pointer="/job/model_kwargs",
            ) from error
    if sequence_length is not None and parts.tokens_per_sample is None:
        raise InvalidInputError(
            f"zoo/{name} reads no sequences; leave sequence_length out.",
            pointer="/job/sequence_length",
        )
    return ModelBundle(
        module=parts.module,
        args=parts.args,
        kwargs=parts.kwargs,
        loss=parts.loss,
        family=workload.family,
        name=f"zoo/{name}",
        samples=batch_size,
        tokens_per_sample=parts.tokens_per_sample,
    )


def check_reference(name: str) -> None:
    """Refuse a name that no reference workload has.

    Raises
    ------
    UnknownModelError
        Carries the nearest names.
    """
    if name not in REGISTER:
        known = [f"zoo/{known}" for known in REGISTER]
        longer = [one for one in known if name in one]
        # Open models go by the names of their hubs, without a prefix.
        meant = dict.fromkeys((*longer, *suggested_models(name, others=known)))
        raise UnknownModelError(
            f"zoo/{name}", known=known, suggested=[*meant][:5], pointer="/job/model"
        )


def _check_arguments(
    name: str, function: Callable[..., Parts], model_kwargs: Mapping[str, Any]
) -> None:
    takes = dict(list(inspect.signature(function).parameters.items())[1:])
    for key, value in model_kwargs.items():
        pointer = f"/job/model_kwargs/{key}"
        if key not in takes:
            raise InvalidInputError(
                f"zoo/{name} takes no argument {key!r}; it takes {', '.join(takes) or 'none'}.",
                pointer=pointer,
                allowed=list(takes),
            )
        if isinstance(takes[key].default, bool):
            if not isinstance(value, bool):
                raise InvalidInputError(
                    f"{key} of zoo/{name} must be true or false, got {value!r}.", pointer=pointer
                )
        elif isinstance(takes[key].default, int):
            most = MOST_LAYERS if key.endswith("layers") else 2**31
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise InvalidInputError(
                    f"{key} of zoo/{name} must be a whole number from 1 to {most}, got {value!r}.",
                    pointer=pointer,
                )
