"""What the examples of NVIDIA/DeepLearningExamples are to us: workload, optimizer, units.

Sizes and layouts are those of the configuration files beside each example: its ConvNets keep images
channels-last under mixed precision only, its Transformer-XL has an adaptive softmax and 192 (base)
or 384 (large) target tokens, its BERT fine-tuning 384 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfmodel.importers.jobs.ngc import EXAMPLES_BERT
from perfmodel.importers.public_tables import Row, positive, text
from perfmodel.types import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """One example, as far as a step depends on it.

    Parameters
    ----------
    model : str or None
        Reference or timm model; None where the name is all there is.
    units : mapping of str to float
        Units of throughput, with how many of them make a sample.
    optimizer : str or None
        None where training uses one that cannot be captured.
    channels_last : bool
        Whether mixed precision runs channels-last.
    software : mapping of str to str
        What it runs beside that of the container.
    """

    name: str
    units: Mapping[str, float]
    model: str | None = None
    optimizer: str | None = None
    model_kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    sequence_length: int | None = None
    channels_last: bool = False
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    modes: tuple[Mode, ...] = (Mode.TRAINING, Mode.INFERENCE)

    def units_per_sample(self, row: Row) -> float:
        """Return how many of a row's units make a sample; ValueError for an unknown unit."""
        unit = text(row, "unit")
        if unit not in self.units:
            raise ValueError(f"unit {unit!r} of {self.name} is not {' or '.join(self.units)!r}")
        return self.units[unit]


_IMAGES = MappingProxyType({"img/s": 1.0, "images/s": 1.0})
_SEQUENCES = MappingProxyType({"seq/s": 1.0, "sequences/s": 1.0})


def _vision(name: str, model: str, size: int | None, optimizer: str | None) -> Recipe:
    return Recipe(
        name=name,
        model=model,
        units=_IMAGES,
        optimizer=optimizer,
        model_kwargs=MappingProxyType({} if size is None else {"img_size": size}),
        channels_last=True,
    )


#: (folder below PyTorch/, variant) -> recipe.
RECIPES: Mapping[tuple[str, str], Recipe] = MappingProxyType(
    {
        ("Classification/ConvNets/resnet50v1.5", ""): _vision(
            "resnet50", "zoo/resnet50-v1.5", None, "momentum"
        ),
        ("Classification/ConvNets/resnext101-32x4d", ""): _vision(
            "resnext101", "timm/resnext101_32x4d", 224, "momentum"
        ),
        ("Classification/ConvNets/se-resnext101-32x4d", ""): _vision(
            "se-resnext101", "timm/seresnext101_32x4d", 224, "momentum"
        ),
        # Trained with RMSprop.
        ("Classification/ConvNets/efficientnet", "efficientnet-b0"): _vision(
            "efficientnet-b0", "timm/efficientnet_b0", 224, None
        ),
        ("Classification/ConvNets/efficientnet", "efficientnet-b4"): _vision(
            "efficientnet-b4", "timm/efficientnet_b4", 380, None
        ),
        ("Detection/SSD", ""): _vision("ssd", "zoo/ssd300-resnet50", None, "momentum"),
        # Its inference waits for boxes to be suppressed and masks to be pasted, after the network.
        ("Segmentation/MaskRCNN", ""): Recipe(
            name="maskrcnn",
            model="zoo/mask-rcnn",
            units=_IMAGES,
            optimizer="momentum",
            modes=(Mode.TRAINING,),
        ),
        ("LanguageModeling/BERT", "squad"): Recipe(
            name="bert_large_squad",
            model="zoo/bert-large-squad",
            units=_SEQUENCES,
            optimizer="adamw",
            sequence_length=384,
            software=EXAMPLES_BERT,
        ),
        ("LanguageModeling/Transformer-XL", "base"): Recipe(
            name="transformer-xl-base-adaptive",
            units=MappingProxyType({"tok/s": 192.0}),
            modes=(Mode.TRAINING,),
        ),
        ("LanguageModeling/Transformer-XL", "large"): Recipe(
            name="transformer-xl-large-adaptive",
            units=MappingProxyType({"tok/s": 384.0}),
            modes=(Mode.TRAINING,),
        ),
        ("SpeechSynthesis/Tacotron2", "mels/s"): Recipe(
            name="tacotron2",
            model="zoo/tacotron2",
            units=MappingProxyType({"mels/s": 565.0}),
            optimizer="adam",
            modes=(Mode.TRAINING,),
        ),
        ("SpeechSynthesis/Tacotron2", "samples/s"): Recipe(
            name="waveglow",
            model="zoo/waveglow",
            units=MappingProxyType({"samples/s": 8000.0}),
            optimizer="adam",
            modes=(Mode.TRAINING,),
        ),
        ("Translation/GNMT", ""): Recipe(
            name="gnmt",
            model="zoo/gnmt",
            units=MappingProxyType({"tok/s": 48.8}),
            optimizer="adam",
            modes=(Mode.TRAINING,),
        ),
        ("Recommendation/NCF", ""): Recipe(
            name="ncf",
            model="zoo/ncf",
            units=MappingProxyType({"samples/s": 1.0}),
            optimizer="adam",
        ),
    }
)


def recipe_of(row: Row, mode: Mode) -> Recipe:
    """Return the recipe of a row.

    Parameters
    ----------
    row : mapping
        With ``framework``, ``readme``, ``variant``, ``section_variant``, ``unit``.

    Raises
    ------
    ValueError
        With the reason why the row has none.
    """
    framework, _, page = text(row, "readme").partition("/")
    if framework != "PyTorch":
        raise ValueError(f"{framework} runs other operators than the graphs captured here")
    example = page.removesuffix("/README.md")
    if example == "Classification/ConvNets":
        raise ValueError("the overview repeats the pages of its models")
    variant = _variant(example, row)
    recipe = RECIPES.get((example, variant))
    if recipe is None:
        raise ValueError(f"no workload for {example} {variant}".rstrip())
    if mode not in recipe.modes:
        raise ValueError(f"{mode} of {recipe.name} is not what the workload does")
    return recipe


def _variant(example: str, row: Row) -> str:
    section = str(row.get("section_variant") or "")
    if example == "LanguageModeling/BERT":
        # Pre-training has another head, and its batches mix accumulated and micro batches.
        fine_tuned = "fine-tuning" in section.casefold()
        return "squad" if fine_tuned and _length(row) == 384 else "other than SQuAD at 384 tokens"
    if example == "LanguageModeling/Transformer-XL":
        return section.split(" ")[0].casefold()
    if example == "SpeechSynthesis/Tacotron2":
        return text(row, "unit")
    return str(row.get("variant") or "")


def _length(row: Row) -> float | None:
    return None if row.get("seq_len") is None else positive(row, "seq_len")
