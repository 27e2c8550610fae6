"""How far two versions are off, group by group, with bootstrapped intervals of the difference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from perfmodel.features.arrays import FloatArray
from perfmodel.training.gate.evidence import DIMENSIONS, Answers, JudgingSet, Margins
from perfmodel.training.gate.finding import Finding, GroupError


def group_errors(
    judged: JudgingSet, candidate: Answers, serving: Answers, margins: Margins
) -> list[GroupError]:
    """Compare two versions on all steps and on every group that is large enough.

    The difference ``d_i = |ln(a_i / T_i)| - |ln(b_i / T_i)|`` is taken step by step, so that what
    makes a step hard for both versions cancels out. Its mean is resampled for its standard error.
    """
    errors = [np.abs(np.log(one.time_s / judged.measured_s)) for one in (candidate, serving)]
    # A step alone has no spread, and no difference is beyond what chance explains.
    groups = [one for one in _groups(judged, margins.least_steps) if len(one[2]) > 1]
    # Bonferroni: all intervals of a judging set hold at once with the stated confidence. One of
    # forty groups of a version that is as good would else be called worse more often than not.
    tail = (1 - margins.confidence) / (2 * max(len(groups), 1))
    return [
        _compared(
            (judged.name, dimension, group), errors[0][inside], errors[1][inside], tail, margins
        )
        for dimension, group, inside in groups
    ]


def worse(groups: list[GroupError], margins: Margins) -> list[Finding]:
    """Return the groups in which a candidate is worse by more than the margin, beyond chance."""
    return [
        Finding(
            check="error",
            where=one.where,
            detail=f"{one.candidate:.3f} instead of {one.serving:.3f} over {one.steps} steps; the "
            f"difference is {one.low:+.3f} to {one.high:+.3f}, the margin {margins.error:g}",
        )
        for one in groups
        if one.candidate - one.serving > margins.error and one.low > 0
    ]


def _groups(judged: JudgingSet, least: int) -> Iterator[tuple[str, str, npt.NDArray[np.intp]]]:
    yield "all", "steps", np.arange(len(judged.keys))
    for dimension in DIMENSIONS:
        labels = np.array(judged.labels[dimension])
        small: list[npt.NDArray[np.intp]] = []
        for group in sorted(set(labels.tolist())):
            inside = np.flatnonzero(labels == group)
            if len(inside) < least:
                small.append(inside)
            else:
                yield dimension, group, inside
        if small:
            # None is left out: those that are too small by themselves are judged together.
            yield dimension, "(small groups)", np.concatenate(small)


def _compared(
    named: tuple[str, str, str],
    candidate: FloatArray,
    serving: FloatArray,
    tail: float,
    margins: Margins,
) -> GroupError:
    """Compare two versions in one group; ``tail`` is left out at each end of the interval."""
    difference = candidate - serving
    # The same resamples in every order of groups.
    draws = np.random.default_rng(margins.seed).integers(
        len(difference), size=(margins.resamples, len(difference))
    )
    # Few steps know their own spread badly: resampling n of them shows sqrt((n - 1) / n) of it,
    # and Student's distribution is as much wider than the normal one as n is small.
    count = len(difference)
    reach = -float(stdtrit(count - 1, tail)) * (count / (count - 1)) ** 0.5
    spread = reach * float(difference[draws].mean(axis=1).std())
    middle = float(difference.mean())
    judging_set, dimension, group = named
    return GroupError(
        judging_set=judging_set,
        dimension=dimension,
        group=group,
        steps=len(difference),
        candidate=float(candidate.mean()),
        serving=float(serving.mean()),
        low=middle - spread,
        high=middle + spread,
    )
