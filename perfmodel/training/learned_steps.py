"""Which steps a version has learned from, and which none ever does.

A version notes the keys of its steps, so that nobody judges it on what it has seen. Whether a step
is kept back for judging follows from the name and the mode of its job alone: the same steps in
every snapshot, whatever their source, batch or device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.predictor_checks import read_json
from perfmodel.training.validation.held_out_folds import unit_hash
from perfmodel.types import Compiler, MemoryFormat, Mode, Precision

#: File of a version that holds the keys.
LEARNED = "learned.json"
#: Share of the jobs, by name and mode, that no retraining ever learns from.
KEPT_BACK = 0.1


class MeasuredStep(Protocol):
    """What a workload and a step have in common."""

    @property
    def accelerator(self) -> AcceleratorSpec:
        """Where it ran."""

    @property
    def mode(self) -> Mode:
        """What it did."""

    @property
    def batch_size(self) -> int:
        """Samples per step."""

    @property
    def precision(self) -> Precision:
        """Arithmetic."""

    @property
    def memory_format(self) -> MemoryFormat:
        """Layout of images."""

    @property
    def compiler(self) -> Compiler:
        """What ran it."""

    @property
    def software(self) -> Mapping[str, str]:
        """Versions."""

    @property
    def threads(self) -> int | None:
        """CPU threads."""


def step_key(model: str, step: MeasuredStep) -> str:
    """Return 16 hexadecimal digits that name a measured step in every source."""
    facts = (
        model, step.accelerator.name, step.mode.value, step.batch_size, step.precision.value,
        step.memory_format.value, step.compiler.value, sorted(step.software.items()), step.threads,
    )  # fmt: skip
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def is_kept_back(model: str, mode: Mode, share: float = KEPT_BACK) -> bool:
    """Tell whether steps of a job are judged on and never learned from."""
    return unit_hash(f"judged: {model} {mode.value}") < share


def learned_keys(samples: Sequence[Sample], corpus: Iterable[StepSample]) -> list[str]:
    """Return the keys of what is learned from, sorted."""
    keys = {step_key(one.model, one.workload) for one in samples}
    keys.update(step_key(one.model, one.step) for one in corpus)
    return sorted(keys)


def read_learned(version: Path) -> frozenset[str] | None:
    """Return the keys of what a version has learned from; None where it did not note them.

    Raises
    ------
    DamagedArtifactError
        The file holds something else.
    """
    path = version / LEARNED
    if not path.exists():
        return None
    keys = read_json(path).get("keys")
    if not isinstance(keys, list):
        raise DamagedArtifactError(f"{path} holds no keys.")
    return frozenset(map(str, keys))
