"""Which models and programs the shipped library is to hold."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources

from perfmodel.graph.hub_models.names import hub_models
from perfmodel.graph.job import Job
from perfmodel.types import MemoryFormat, Mode, Precision

_INFERENCE = (
    Precision.FP32, Precision.FP16, Precision.BF16, Precision.AMP_FP16, Precision.AMP_BF16,
)  # fmt: skip
_FP32, _HALF, _BFLOAT, _PURE = (
    Precision.FP32, Precision.AMP_FP16, Precision.AMP_BF16, Precision.BF16,
)  # fmt: skip
#: How people train images, and language.
_IMAGE_TRAINING = tuple(
    (precision, optimizer)
    for precision in (_FP32, _HALF, _BFLOAT)
    for optimizer in ("sgd", "momentum", "adamw")
)
_OTHER_TRAINING = (
    (_FP32, "sgd"), (_FP32, "adam"), (_FP32, "adamw"), (_HALF, "sgd"), (_HALF, "adamw"),
    (_BFLOAT, "sgd"), (_BFLOAT, "adamw"), (_PURE, "sgd"), (_PURE, "adamw"),
)  # fmt: skip
#: What of it is asked about with channels last.
_LAST_INFERENCE, _LAST_TRAINING = (Precision.FP16, _HALF), ((_HALF, "sgd"), (_BFLOAT, "sgd"))
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
    first, last = MemoryFormat.CHANNELS_FIRST, MemoryFormat.CHANNELS_LAST
    answered = [(precision, first) for precision in _INFERENCE]
    trained = [(*how, first) for how in (_IMAGE_TRAINING if of_images else _OTHER_TRAINING)]
    if of_images:
        answered += [(precision, last) for precision in _LAST_INFERENCE]
        trained += [(*how, last) for how in _LAST_TRAINING]
    for precision, layout in answered:
        yield replace(model, mode=Mode.INFERENCE, precision=precision, memory_format=layout)
    for precision, optimizer, layout in trained:
        yield replace(
            model,
            mode=Mode.TRAINING,
            precision=precision,
            optimizer=optimizer,
            memory_format=layout,
        )
