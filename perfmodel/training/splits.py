"""Which samples are learned from and which are asked about."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.predictors.folds import IntArray, family_folds
from perfmodel.predictors.predictor import Sample

#: Names of the splits. The random one flatters: relatives of a sample lie on both sides.
SPLITS = ("leave-family-out", "random")
FOLDS = 5


def split_folds(samples: Sequence[Sample], split: str, folds: int = FOLDS) -> IntArray:
    """Return the fold of each sample.

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
        f"Unknown split {split!r}. Use one of {', '.join(SPLITS)}.", allowed=SPLITS
    )


def _random_fold(sample: Sample, folds: int) -> int:
    digest = hashlib.sha256(f"random:{sample.workload.content_hash}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % folds
