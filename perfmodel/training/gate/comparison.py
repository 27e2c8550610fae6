"""How far two versions are off, group by group, with bootstrapped intervals of the difference.

Steps are no independent witnesses: two versions that learned the same from the same data differ,
and steps of one network move together. What moves by itself is resampled as a whole, a *unit*: a
family, or a model where all of a group is of one family.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from perfmodel.features.arrays import FloatArray, IntArray, StrArray
from perfmodel.training.gate.evidence import DIMENSIONS, Answers, JudgingSet, Margins
from perfmodel.training.gate.finding import Finding, GroupError

#: Steps on which versions are compared at least: one alone has no spread, and no difference is
#: beyond what chance explains.
LEAST_STEPS = 2


@dataclass(frozen=True)
class _Group:
    """Some steps of a judging set, by their numbers."""

    dimension: str
    name: str
    steps: IntArray


def group_errors(
    judged: JudgingSet, candidate: Answers, serving: Answers, margins: Margins
) -> list[GroupError]:
    """Compare two versions on all steps and on every group that is large enough.

    The difference ``d_i = |ln(a_i / T_i)| - |ln(b_i / T_i)|`` is taken step by step, so that what
    makes a step hard for both versions cancels out. Of its mean over a group the interval is::

        reach(v) = t(tail, K - 1) sqrt(k / (k - 1)) std(mean over k units v drawn with replacement)
        mean(d) +- min(reach(units), sqrt(reach(steps)^2 + training^2))

    where ``K = n^2 / sum_u n_u^2`` is to how many units of one size those of ``n_u`` steps amount.
    A group of one unit, or of hardly more, does not show by itself what chance of training does to
    it; ``training`` is what it is given for that.
    """
    errors = [np.abs(np.log(one.time_s / judged.measured_s)) for one in (candidate, serving)]
    groups = [one for one in _groups(judged, margins.least_steps) if len(one.steps) >= LEAST_STEPS]
    # Bonferroni: all intervals of a judging set hold at once with the stated confidence. One of
    # forty groups of a version that is as good would else be called worse more often than not.
    tail = (1 - margins.confidence) / (2 * max(len(groups), 1))
    return [
        _compared(judged, one, errors[0][one.steps], errors[1][one.steps], tail, margins)
        for one in groups
    ]


def worse(groups: list[GroupError]) -> list[Finding]:
    """Return the groups in which a candidate is worse by more than the margin, beyond chance."""
    return [
        Finding(
            check="error",
            where=one.where,
            detail=f"{one.candidate:.3f} instead of {one.serving:.3f} over {one.steps} steps of "
            f"{one.units} units; the difference is {one.low:+.3f} to {one.high:+.3f}, the margin "
            f"{one.margin:g}",
        )
        for one in groups
        if one.candidate - one.serving > one.margin and one.low > 0
    ]


def _groups(judged: JudgingSet, least: int) -> Iterator[_Group]:
    yield _Group("all", "steps", np.arange(len(judged.keys)))
    for dimension in DIMENSIONS:
        labels = np.array(judged.labels[dimension])
        small: list[IntArray] = []
        for name in sorted(set(labels.tolist())):
            inside = np.flatnonzero(labels == name)
            if len(inside) < least:
                small.append(inside)
            else:
                yield _Group(dimension, name, inside)
        if small:
            # None is left out: those that are too small by themselves are judged together.
            yield _Group(dimension, "(small groups)", np.concatenate(small))


def _compared(
    judged: JudgingSet,
    group: _Group,
    candidate: FloatArray,
    serving: FloatArray,
    tail: float,
    margins: Margins,
) -> GroupError:
    """Compare two versions in one group; ``tail`` is left out at each end of the interval."""
    families, models = (
        _numbered(np.array(judged.labels[label])[group.steps]) for label in ("family", "model")
    )
    is_one_family = families.max() == 0
    units = models if is_one_family else families
    difference = candidate - serving
    middle = float(difference.mean())
    shown = _reach(difference, units, tail, margins)
    assumed = math.hypot(
        _reach(difference, np.arange(len(difference)), tail, margins), margins.training
    )
    return GroupError(
        judging_set=judged.name,
        dimension=group.dimension,
        group=group.name,
        steps=len(difference),
        units=int(units.max()) + 1,
        candidate=float(candidate.mean()),
        serving=float(serving.mean()),
        low=middle - min(shown, assumed),
        high=middle + min(shown, assumed),
        margin=margins.family_error if is_one_family else margins.error,
        assumed=margins.training if assumed < shown else 0.0,
    )


def _numbered(labels: StrArray) -> IntArray:
    numbers: IntArray = np.unique(labels, return_inverse=True)[1]
    return numbers


def _reach(difference: FloatArray, units: IntArray, tail: float, margins: Margins) -> float:
    """Return how far chance takes a mean to either side, by resampling units as a whole."""
    sizes, totals = np.bincount(units), np.bincount(units, difference)
    count = len(sizes)
    if count < 2:
        return math.inf
    # The same resamples in every order of groups.
    draws = np.random.default_rng(margins.seed).integers(count, size=(margins.resamples, count))
    spread = float((totals[draws].sum(axis=1) / sizes[draws].sum(axis=1)).std())
    # Few units know their own spread badly: resampling k of them shows sqrt((k - 1) / k) of it,
    # and Student's distribution is as much wider than the normal one as they are few.
    alike = float(sizes.sum() ** 2 / (sizes**2).sum())
    wider = -float(stdtrit(max(alike - 1, 1.0), tail)) * math.sqrt(count / (count - 1))
    return wider * spread
