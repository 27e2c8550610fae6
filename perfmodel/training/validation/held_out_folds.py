"""Folds of measured workloads, and by what a sample is told from others wherever it is held out.

Membership follows from a hash of the name of the family or of the workload itself, never from the
order or number of samples: new measurements do not move known ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import IntArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import family_folds
from perfmodel.predictors.predictor import Sample

FOLDS = 5
#: Names of the splits of workloads on profiled devices.
WORKLOAD_SPLITS = ("leave-family-out", "random")


def identity(sample: StepSample) -> str:
    """Return a word that tells a sample from every other one, whatever their order."""
    step = sample.step
    facts = (
        sample.source, sample.model, step.sketch.content_hash, step.accelerator.name,
        step.mode.value, step.batch_size, step.precision.value, step.memory_format.value,
        step.compiler.value, sorted(step.software.items()), step.threads,
    )  # fmt: skip
    return repr(facts)


def workload_folds(samples: Sequence[Sample], split: str, folds: int = FOLDS) -> IntArray:
    """Return the fold of each measured workload.

    Parameters
    ----------
    split : str
        ``"leave-family-out"``: by a hash of the family; ``"random"``: by a hash of the
        workload. Both are frozen: more samples never move a known one.

    Returns
    -------
    ndarray of int, shape (samples,)

    Raises
    ------
    InvalidInputError
        Another split.
    TrainingError
        All families fall into one fold.
    """
    if split == "leave-family-out":
        return family_folds(samples, folds)
    if split == "random":
        return np.array([_random_fold(s, folds) for s in samples], dtype=np.int64)
    raise InvalidInputError(
        f"Unknown split {split!r}. Use one of {', '.join(WORKLOAD_SPLITS)}.",
        allowed=WORKLOAD_SPLITS,
    )


def _random_fold(sample: Sample, folds: int) -> int:
    digest = hashlib.sha256(f"random:{sample.workload.content_hash}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % folds
