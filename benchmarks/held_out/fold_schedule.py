"""Which folds are run, on how many samples, and which probes are taken."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from held_out.frozen_folds import LOCKBOX, SPLITS, Fold, locks_of, make_folds

from perfmodel.features.arrays import BoolArray, IntArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import unit_hash
from perfmodel.training.probes.probe_plan import (
    ProbeChooser,
    noise_with_misfit,
    prior_of,
    probe_order,
)
from perfmodel.training.validation.held_out_folds import identity
from perfmodel.types import Compiler, Mode

#: Records of a device after which it is asked again.
PROBES = (3, 5, 10)
#: Candidates below which a device gets no probes: too few rows would be left to ask.
_LEAST_CANDIDATES = 300
#: Samples above which a device is rich: left out together with families, and learned from whole.
_RICH = 1000
#: Samples below which a source is small, and never thinned out.
_SMALL_SOURCE = 3000


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much of a cross-validation is run.

    Parameters
    ----------
    folds, device_folds : int
        Folds of ``unseen-family``, and of ``unseen-device-family`` for each device.
    sparse_devices : int or None
        Devices with few samples that are left out in turn; None: all of them.
    most_learned : int or None
        Samples a fold learns from, chosen by hash; None: all.
    most_learned_sparse : int or None
        The same where a device with few samples is left out.
    most_operators : int or None
        Operators alone that a fold hears beside them, chosen by hash; None: all.
    most_asked : int or None
        Samples a fold is asked about, chosen by hash.
    random_probes : int
        Random choices of probes beside the planned one.
    """

    folds: int = 5
    device_folds: int = 1
    random_folds: int = 1
    sparse_devices: int | None = None
    most_learned: int | None = None
    most_learned_sparse: int | None = 5000
    most_operators: int | None = None
    most_asked: int | None = None
    random_probes: int = 2


FULL = Effort()
FAST = Effort(
    folds=2,
    device_folds=1,
    random_folds=1,
    sparse_devices=4,
    most_learned=5000,
    most_learned_sparse=5000,
    # As few of them as of whole steps: a fifth.
    most_operators=1000,
    most_asked=1000,
    random_probes=1,
)


def schedule(
    samples: Sequence[StepSample], effort: Effort, splits: Sequence[str] = SPLITS
) -> list[Fold]:
    """Return the folds to run, cut down to an effort; those of choices leave the lockbox aside."""
    by_row = _order(samples)
    by_model = np.array([unit_hash(f"order:{sample.model}") for sample in samples])
    scarce = _scarce(samples)
    rows = Counter(sample.step.accelerator.name for sample in samples)
    gpus = {s.step.accelerator.name for s in samples if s.step.accelerator.kind == "gpu"}
    chosen: list[Fold] = []
    open_to_choice = locks_of(samples) == ""
    for split in splits:
        # Where models recur on both sides, all rows of a model stay together, so that what was
        # seen elsewhere stays seen; where they do not, more models teach more.
        order = by_row if "family" in split else by_model
        folds = [f for f in make_folds(samples, split) if not f.device or f.device in gpus]
        if split != LOCKBOX:
            folds = [one for fold in folds if (one := _among(fold, open_to_choice)) is not None]
        for fold in _some(folds, split, effort, rows):
            sparse = bool(fold.device) and rows[fold.device] < _RICH
            most = effort.most_learned_sparse if sparse else effort.most_learned
            chosen.append(
                dataclasses.replace(
                    fold,
                    train=_thin(fold.train, most, order, scarce),
                    test=_thin(fold.test, effort.most_asked, order, scarce),
                )
            )
    return chosen


def _order(samples: Sequence[StepSample]) -> np.ndarray:
    """Return the order in which samples are taken where not all are."""
    return np.array([unit_hash(f"order:{identity(sample)}") for sample in samples])


def fewer_operators(operators: Sequence[StepSample], most: int | None) -> list[StepSample]:
    """Return at most so many of some operators, chosen by hash."""
    if most is None or len(operators) <= most:
        return list(operators)
    return [operators[i] for i in np.sort(np.argsort(_order(operators))[:most])]


def _among(fold: Fold, chosen: BoolArray) -> Fold | None:
    """Return what some samples leave of a fold; None where nothing is learned or asked."""
    train, test = (part[chosen[part]] for part in (fold.train, fold.test))
    return dataclasses.replace(fold, train=train, test=test) if len(train) and len(test) else None


def _some(folds: list[Fold], split: str, effort: Effort, rows: Counter[str]) -> list[Fold]:
    """Return the folds of one split that an effort runs."""
    if split == "random":
        return folds[: effort.random_folds]
    if split == "unseen-family":
        return folds[: effort.folds]
    rich = [fold for fold in folds if not fold.device or rows[fold.device] >= _RICH]
    if split != "unseen-device-family":
        sparse = [fold for fold in folds if fold not in rich]
        sparse.sort(key=lambda fold: unit_hash(f"device:{fold.device}"))
        return rich + sparse[: effort.sparse_devices]
    taken: Counter[str] = Counter()
    found = []
    # Each device leaves out other families first, so that a short run sees several of them.
    for fold in sorted(rich, key=lambda fold: unit_hash(f"fold:{fold.name}")):
        taken[fold.device] += 1
        if taken[fold.device] <= effort.device_folds:
            found.append(fold)
    return sorted(found, key=lambda fold: fold.name)


def _scarce(samples: Sequence[StepSample]) -> IntArray:
    """Return 1 for samples of small sources, which are never thinned out."""
    rows = Counter(sample.source for sample in samples)
    return np.array([rows[s.source] < _SMALL_SOURCE for s in samples], dtype=np.int64)


def _thin(positions: IntArray, most: int | None, order: np.ndarray, scarce: IntArray) -> IntArray:
    """Return at most so many positions: those of small sources, then by hash."""
    if most is None or len(positions) <= most:
        return positions
    ranked = np.lexsort((order[positions], -scarce[positions]))
    return np.sort(positions[ranked[:most]])


def probe_sets(
    samples: Sequence[StepSample], fold: Fold, learner: object, random_probes: int
) -> dict[str, list[int]]:
    """Return which samples of the left-out device are measured first, by way of choosing.

    Parameters
    ----------
    fold : Fold
        One that leaves a device out.
    learner : object
        Plans the choice where it is a :class:`ProbeChooser`.

    Returns
    -------
    dict of str to list of int
        Positions, in the order in which they are measured; the first k serve for k probes.
        Empty where the device has too few candidates.
    """
    candidates = [
        int(i)
        for i in fold.test
        if samples[i].source == "timm"
        and samples[i].step.mode is Mode.INFERENCE
        and samples[i].step.compiler is Compiler.EAGER
    ]
    if len(candidates) < _LEAST_CANDIDATES:
        return {}
    most = max(PROBES)
    sets: dict[str, list[int]] = {}
    if isinstance(learner, ProbeChooser):
        steps = [samples[i].step for i in candidates]
        features = np.asarray(learner.device_features(steps), dtype=np.float64)
        prior = prior_of(learner, steps[0].accelerator.name)
        order = probe_order(features, prior, noise_with_misfit(features, learner.noise_), most)
        sets["planned"] = [candidates[i] for i in order]
    for number in range(random_probes):
        words = {i: unit_hash(f"probe-{number}:{identity(samples[i])}") for i in candidates}
        sets[f"random-{number}"] = sorted(candidates, key=words.__getitem__)[:most]
    return sets
