"""Which models and programs the shipped library is to hold."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from itertools import product

from perfmodel.graph.hub_models.names import hub_models
from perfmodel.graph.job import Job
from perfmodel.types import MemoryFormat, Mode, Precision

_INFERENCE = (
    Precision.FP32, Precision.FP16, Precision.BF16, Precision.AMP_FP16, Precision.AMP_BF16,
)  # fmt: skip
_TRAINING = (Precision.FP32, Precision.AMP_FP16, Precision.AMP_BF16)
#: What people train images and language with; parameters in bf16 are common for language alone.
_IMAGE_OPTIMIZERS, _OTHER_OPTIMIZERS = ("sgd", "momentum", "adamw"), ("sgd", "adam", "adamw")
#: Reference workloads that are operators alone, which nobody asks about without arguments.
_OPERATORS = "operator-"


def wanted_models() -> list[Job]:
    """Return every model to be shipped, as a job whose mode and batch do not matter."""
    named = tomllib.loads(
        (resources.files(__package__) / "wanted.toml").read_text(encoding="utf-8")
    )
    # Imported here: the register of workloads is a room of its own.
    from perfmodel.zoo.references.reference import reference_names

    workloads = [name for name in reference_names() if not name.startswith(_OPERATORS)]
    return [
        *(Job(model=f"timm/{name}") for name in named["timm"]),
        *(Job(model=f"zoo/{name}") for name in workloads),
        *(
            Job(model=f"zoo/{name}", model_kwargs={"size": size})
            for name, sizes in named["sizes"].items()
            for size in sizes
        ),
        *(Job(hf_config=model.config) for model in hub_models()),
    ]


def wanted_programs(model: Job) -> Iterator[Job]:
    """Yield what is asked about a model: modes, precisions, optimizers, layouts.

    The first of each mode is the one that others are like.
    """
    of_images = (model.model or "").startswith("timm/")
    formats = list(MemoryFormat) if of_images else [MemoryFormat.CHANNELS_FIRST]
    for layout, precision in product(formats, _INFERENCE):
        yield replace(model, mode=Mode.INFERENCE, precision=precision, memory_format=layout)
    precisions = _TRAINING if of_images else (*_TRAINING, Precision.BF16)
    optimizers = _IMAGE_OPTIMIZERS if of_images else _OTHER_OPTIMIZERS
    for layout, precision, optimizer in product(formats, precisions, optimizers):
        yield replace(
            model,
            mode=Mode.TRAINING,
            precision=precision,
            optimizer=optimizer,
            memory_format=layout,
        )
