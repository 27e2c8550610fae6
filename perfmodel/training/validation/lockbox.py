"""The lockbox: a fifth of devices, of families and of jobs that takes part in no choice.

Whether a step lies in it follows from a hash of the name of its device, of its family, or of its
model and mode, so that no measurement ever moves another in or out. All other splits leave it
aside, in what is learned from and in what is asked; the split ``lockbox`` asks about it after a fit
on everything else. What serves in the end is learned from all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.arrays import BoolArray, StrArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import unit_hash

#: Share of the devices, of the families and of the jobs.
LOCKED = 0.2
#: Why a step lies in it, first what is harder to answer.
LOCKS = ("device", "family", "job")


def locks(
    device: Sequence[str], family: Sequence[str], model: Sequence[str], mode: Sequence[str]
) -> StrArray:
    """Return by what each step is locked: the first of :data:`LOCKS`, or an empty word."""
    jobs = [f"{name} {what}" for name, what in zip(model, mode, strict=True)]
    found = np.full(len(jobs), "", dtype="<U6")
    for lock, words in zip(reversed(LOCKS), (jobs, family, device), strict=True):
        found[_locked(words)] = lock
    return found


def locks_of(samples: Sequence[StepSample]) -> StrArray:
    """Return by what each sample is locked, see :func:`locks`."""
    return locks(
        [s.step.accelerator.name for s in samples],
        [s.family for s in samples],
        [s.model for s in samples],
        [s.step.mode.value for s in samples],
    )


def is_locked(word: str) -> bool:
    """Tell whether a device, a family or a job lies in the lockbox, by its name."""
    return unit_hash(f"lockbox:{word}") < LOCKED


def _locked(words: Sequence[str]) -> BoolArray:
    names = {word: is_locked(word) for word in set(words)}
    return np.array([names[word] for word in words], dtype=np.bool_)
