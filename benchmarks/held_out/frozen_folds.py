"""Frozen folds: which samples are learned from and which are asked about.

Membership follows from a hash of the name of the family, of the device or of the sample itself,
never from the order or number of samples: new measurements do not move known ones. Every fold is
told by what it leaves out:

==========================  =====================================================================
``unseen-family``           every fifth family (by hash), on all devices
``unseen-device``           one device, in all sources
``unseen-device-family``    one device, and a fifth of the families everywhere; asked are the
                            families that were left out, on the device that was left out
``random``                  every fifth sample; relatives lie on both sides, so it flatters
``newer-software``          PyTorch 2.9 and later; asked are devices known with older versions
``lockbox``                 a fifth of devices, of families and of jobs
==========================  =====================================================================

The lockbox takes part in no choice. Whether a step lies in it follows from a hash of the name of
its device, of its family, or of its model and mode, so that no measurement ever moves another in or
out. All other splits leave it aside, in what is learned from and in what is asked; the split
``lockbox`` asks about it after a fit on everything else. What serves in the end is learned from all
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import BoolArray, IntArray, StrArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import family_fold, unit_hash
from perfmodel.training.validation.held_out_folds import FOLDS, identity

#: Share of the devices, of the families and of the jobs.
LOCKED = 0.2
#: Why a step lies in it, first what is harder to answer.
LOCKS = ("device", "family", "job")
#: The split that asks about what no other split looks at.
LOCKBOX = "lockbox"
#: Versions that ``newer-software`` leaves out.
NEWER_TORCH = (2, 9)
#: Samples of a device below which leaving it out says nothing.
_LEAST_OF_DEVICE = 5


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


@dataclass(frozen=True, kw_only=True)
class Fold:
    """One fit and what it is asked.

    Parameters
    ----------
    name : str
        What was left out, for people and for file names.
    train, test : ndarray of int64
        Positions of samples; no sample is in both.
    device : str
        The device that was left out; empty where none was. Probes come from its test part.
    """

    split: str
    name: str
    train: IntArray
    test: IntArray
    device: str = ""


def torch_version(sample: StepSample) -> tuple[int, int]:
    """Return major and minor version of PyTorch; (0, 0) where it is not known."""
    parts = sample.step.software.get("torch", "").split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return (0, 0)


def make_folds(samples: Sequence[StepSample], split: str) -> tuple[Fold, ...]:
    """Return the folds of a split that leave something to learn from and something to ask.

    Parameters
    ----------
    split : str
        One of :data:`SPLITS`.

    Raises
    ------
    InvalidInputError
        Another split.
    """
    if split not in _MAKERS:
        raise InvalidInputError(
            f"Unknown split {split!r}. Use one of {', '.join(SPLITS)}.", allowed=SPLITS
        )
    found = _MAKERS[split](_Facts(samples))
    return tuple(fold for fold in found if len(fold.train) and len(fold.test))


class _Facts:
    """What splits look at, as arrays over the samples."""

    def __init__(self, samples: Sequence[StepSample]) -> None:
        self.samples = samples
        self.device = np.array([s.step.accelerator.name for s in samples], dtype=np.str_)
        self.family = np.array([family_fold(s.family, FOLDS) for s in samples], dtype=np.int64)

    @property
    def devices(self) -> list[str]:
        names, counts = np.unique(self.device, return_counts=True)
        return [str(n) for n, c in zip(names, counts, strict=True) if c >= _LEAST_OF_DEVICE]


def _fold(split: str, name: str, train: BoolArray, test: BoolArray, device: str = "") -> Fold:
    return Fold(
        split=split,
        name=name,
        train=np.flatnonzero(train),
        test=np.flatnonzero(test),
        device=device,
    )


def _unseen_family(facts: _Facts) -> Iterator[Fold]:
    for number in range(FOLDS):
        out = facts.family == number
        yield _fold("unseen-family", f"families-{number}", ~out, out)


def _unseen_device(facts: _Facts) -> Iterator[Fold]:
    for device in facts.devices:
        out = facts.device == device
        yield _fold("unseen-device", device, ~out, out, device)


def _unseen_device_family(facts: _Facts) -> Iterator[Fold]:
    for device in facts.devices:
        for number in range(FOLDS):
            there, family = facts.device == device, facts.family == number
            name = f"{device}-families-{number}"
            yield _fold("unseen-device-family", name, ~there & ~family, there & family, device)


def _random(facts: _Facts) -> Iterator[Fold]:
    drawn = np.array([unit_hash(f"random:{identity(s)}") for s in facts.samples])
    part = np.floor(drawn * FOLDS).astype(np.int64)
    for number in range(FOLDS):
        yield _fold("random", f"random-{number}", part != number, part == number)


def _newer_software(facts: _Facts) -> Iterator[Fold]:
    newer = np.array([torch_version(s) >= NEWER_TORCH for s in facts.samples], dtype=np.bool_)
    known = np.isin(facts.device, np.unique(facts.device[~newer]))
    yield _fold("newer-software", "newer", ~newer, newer & known)


def _lockbox(facts: _Facts) -> Iterator[Fold]:
    locked = locks_of(facts.samples) != ""
    yield _fold(LOCKBOX, LOCKBOX, ~locked, locked)


_MAKERS: Mapping[str, Callable[[_Facts], Iterator[Fold]]] = MappingProxyType(
    {
        "unseen-family": _unseen_family,
        "unseen-device": _unseen_device,
        "unseen-device-family": _unseen_device_family,
        "random": _random,
        "newer-software": _newer_software,
        LOCKBOX: _lockbox,
    }
)
#: Names of the splits.
SPLITS: tuple[str, ...] = tuple(_MAKERS)
