"""Refuse models that are too large to be captured, by arithmetic on what a job says of them.

What repeats layers makes a capture longer; what makes them wider does not, but past some width no
number holds the parameters any more. Both stand in the arguments or the configuration, so that
they are known before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perfmodel.errors import CaptureBudgetError, InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.types import Mode

#: Layers of one stack; the deepest that people train have some 250.
MOST_LAYERS = 500
#: Of all stacks together, and experts of a layer.
MOST_LAYERS_IN_ALL, MOST_EXPERTS = 1_000, 4_096
#: Elements of the largest matrix that a configuration implies.
MOST_ELEMENTS = 2.0**48

#: Operators that a layer has at least: of inference, and of training.
_NODES_PER_LAYER = {Mode.INFERENCE: 5, Mode.TRAINING: 20}

_REPEATS = frozenset(
    {"layer", "layers", "depth", "depths", "block", "blocks", "stage", "stages", "repeats", "cells"}
)
#: Words beside those that say that a number counts no layers.
_COUNTS_NONE = frozenset(
    {
        "norm", "dropout", "drop", "id", "ids", "idx", "index", "indices", "size", "sizes", "scale",
        "eps", "init", "std", "decay", "rate", "prob", "ratio", "width", "dim", "channels", "per",
        "kernel", "type", "types", "heads", "stride", "freq", "interval", "groups", "window", "lr",
    }
)  # fmt: skip
_NUMBER_OF = frozenset({"num", "n"})
_WIDTHS = frozenset(
    {"hidden", "dim", "embd", "embed", "model", "intermediate", "inner", "ffn", "vocab", "chans",
     "channels", "features", "width", "classes", "labels", "planes", "projection"}
)  # fmt: skip


def check_size(job: Job, *, most_nodes: int | None = None) -> None:
    """Refuse a job whose model is too deep or too wide.

    Parameters
    ----------
    most_nodes : int or None
        Operators that its graph may have; None: any number.

    Raises
    ------
    InvalidInputError
        With a pointer to the number.
    CaptureBudgetError
        Its layers alone have more operators than there may be.

    Examples
    --------
    >>> check_size(Job(model="timm/vit_tiny_patch16_224", model_kwargs={"depth": 100_000}))
    Traceback (most recent call last):
    perfmodel.errors.InvalidInputError: depth is 100000; at most 500 layers are captured.
    """
    stated = job.model_kwargs if job.hf_config is None else job.hf_config
    pointer = "/job/model_kwargs" if job.hf_config is None else "/job/hf_config"
    layers, widest = 0, [1.0, 1.0]
    for path, key, value in _counts(stated, ""):
        words = frozenset(key.lower().split("_"))
        if "experts" in words:
            _check(key, value, MOST_EXPERTS, "experts of a layer", pointer + path)
        elif words & _REPEATS and not words & _COUNTS_NONE:
            _check(key, value, MOST_LAYERS, "layers", pointer + path)
            layers += int(value)
        elif words & _WIDTHS:
            widest = sorted((*widest, value))[-2:]
    if layers > MOST_LAYERS_IN_ALL:
        raise InvalidInputError(
            f"The model has {layers} layers in all its parts; at most {MOST_LAYERS_IN_ALL} are "
            "captured.",
            pointer=pointer,
        )
    if widest[0] * widest[1] > MOST_ELEMENTS:
        raise InvalidInputError(
            f"The model has matrices of {widest[0]:.3g} by {widest[1]:.3g}; at most "
            f"{MOST_ELEMENTS:.3g} elements are answered for.",
            pointer=pointer,
        )
    nodes = layers * _NODES_PER_LAYER[job.mode] * job.accumulation_steps
    if most_nodes is not None and nodes > most_nodes:
        raise CaptureBudgetError(
            f"{layers} layers have {nodes} operators or more, over a budget of {most_nodes}.",
            pointer=pointer,
        )


def _counts(value: Any, path: str) -> Iterator[tuple[str, str, float]]:
    """Yield the numbers below a value, with where they stand; of a list of numbers their sum."""
    for key, part in value.items():
        at = f"{path}/{key}"
        if isinstance(part, Mapping):
            yield from _counts(part, at)
        elif _is_number(part):
            yield at, str(key), part
        elif isinstance(part, list | tuple):
            yield at, str(key), sum(each for each in part if _is_number(each))
            for position, each in enumerate(part):
                if isinstance(each, Mapping):
                    yield from _counts(each, f"{at}/{position}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check(key: str, value: float, most: int, what: str, pointer: str) -> None:
    if value > most:
        raise InvalidInputError(
            f"{key} is {value}; at most {most} {what} are captured.",
            pointer=pointer,
        )
    # A position may be counted from the end, a number of layers may not.
    if value < 0 and not _NUMBER_OF.isdisjoint(key.lower().split("_")):
        raise InvalidInputError(f"{key} is {value}; there are 0 or more.", pointer=pointer)
