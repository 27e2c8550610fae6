r"""Residuals of observed steps, and the groups that they are looked at by.

The residual of an observation is $x = \ln(y / \hat y)$, with $y$ the measured step and $\hat y$
what was answered just before it counted. The interval of that answer says how large it may be: its
standard deviation $\sigma$, and so the *score* $z = x / \sigma$, which is of one size whether the
very cell had been observed before (a narrow interval) or nothing of the job (a wide one).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from perfmodel.intervals import DEVIATIONS

#: What a measurement is off by itself, in logarithms; no answer is held to less.
LEAST_SCALE = 0.03
#: A single residual says no more than this, in standard deviations.
MOST_SCORE = 3.0
#: Components of software that one observation is grouped by.
MOST_COMPONENTS = 8

_RELEASE = re.compile(r"\d+(\.\d+)?")


class Group(NamedTuple):
    """What some residuals share."""

    kind: str
    value: str


#: The group of all residuals.
EVERYTHING = Group("all", "all")


@dataclass(frozen=True, kw_only=True)
class Residual:
    """One observation beside what was answered before it counted.

    Parameters
    ----------
    number : int
        Which observation; they come in this order.
    at : str
        When it was received; UTC, ISO 8601.
    log_ratio : float
        ln(measured / predicted).
    scale : float
        Standard deviation of that, as the interval of the answer said, in logarithms.
    job : str
        What was measured, whatever its batch.
    """

    number: int
    at: str
    log_ratio: float
    scale: float
    job: str
    groups: tuple[Group, ...]

    @cached_property
    def score(self) -> float:
        """The residual in its standard deviations, at most :data:`MOST_SCORE`.

        Examples
        --------
        >>> Residual(number=1, at="", log_ratio=0.2, scale=0.1, job="a", groups=()).score
        2.0
        """
        return max(-MOST_SCORE, min(MOST_SCORE, self.log_ratio / max(self.scale, LEAST_SCALE)))


def scale_of(low_s: float, high_s: float) -> float:
    """Return the standard deviation, in logarithms, that an interval of 90 % stands for.

    Examples
    --------
    >>> round(scale_of(0.9, 1.1), 3)
    0.061
    """
    return math.log(high_s / low_s) / (2 * DEVIATIONS)


def groups_of(
    *,
    accelerator: str,
    software: Mapping[str, str],
    mode: str,
    operators: str,
    reporter: str,
) -> tuple[Group, ...]:
    """Return the groups of a residual that may drift, each kind of cause among them.

    Parameters
    ----------
    software : mapping of str to str
        Versions; each component is a group of its own, by release.
    """
    releases = sorted(software.items())[:MOST_COMPONENTS]
    return (
        Group("accelerator", accelerator),
        *(Group("software", f"{name} {release_of(version)}") for name, version in releases),
        Group("job_class", f"{mode} of {operators}"),
        Group("reporter", reporter),
        EVERYTHING,
    )


def release_of(version: str) -> str:
    """Return major and minor number of a version; what has none is its own release.

    Examples
    --------
    >>> release_of("2.9.1+cu130"), release_of("550.54.15"), release_of("nightly")
    ('2.9', '550.54', 'nightly')
    """
    found = _RELEASE.match(version)
    return found[0] if found else version
