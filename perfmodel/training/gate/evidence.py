"""What a version showed on measurements that are held out, and of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray

#: By what measurements are grouped.
DIMENSIONS = ("device", "mode", "family", "placement")
#: What is known of each measured step: its groups, and the job, whose steps move together.
LABELS = (*DIMENSIONS, "model")


@dataclass(frozen=True, kw_only=True)
class JudgingSet:
    """Measured steps that neither version may have learned from.

    Parameters
    ----------
    name : str
        ``"frozen"``, ``"newest observations"``.
    keys : tuple of str
        Identity of each step, by which a version that learned from it is found out.
    measured_s : ndarray, shape (steps,)
        > 0, seconds.
    labels : mapping of str to tuple of str
        Of each of :data:`LABELS` that of every step.
    """

    name: str
    keys: tuple[str, ...]
    measured_s: FloatArray
    labels: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        lengths = {len(self.keys), len(self.measured_s), *map(len, self.labels.values())}
        if len(lengths) != 1 or set(self.labels) != set(LABELS):
            raise InvalidInputError(
                f"The judging set {self.name!r} needs a key, a time and {', '.join(LABELS)} of "
                "each step."
            )
        if not self.keys or not (np.isfinite(self.measured_s) & (self.measured_s > 0)).all():
            raise InvalidInputError(
                f"The judging set {self.name!r} needs at least one step, and times above 0."
            )


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a version says of a judging set, shape (steps,) each, seconds."""

    time_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of a version when it is judged.

    Parameters
    ----------
    version : str
        ``"<name>/<version>"``.
    answers : mapping of str to Answers
        By the name of the judging set.
    violations : mapping of str to int
        Of each law, how often it was broken: ``"monotone in batch"``, ``"under the roofline"``,
        ``"order of nodes"``, ...
    golden_rows_off : int
        Rows of its own golden answers that it does not repeat.
    learned_keys : frozenset of str
        Identities of what it learned from.
    damaged : mapping of str to str
        Files that are not what was written, with the reason.
    size_bytes, load_time_s, answers_per_s : float
        Of its files, of loading them, of one worker that answers.
    """

    version: str
    answers: Mapping[str, Answers]
    violations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    golden_rows_off: int = 0
    learned_keys: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    schema_version: int
    damaged: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    size_bytes: float
    load_time_s: float
    answers_per_s: float


@dataclass(frozen=True, kw_only=True)
class Margins:
    """What a candidate may be worse by.

    Parameters
    ----------
    error : float
        Of any group: mean ``|ln(T^ / T)|`` of the candidate minus that of the serving version;
        ``family_error`` of steps of one family alone, which move together as a whole.
    confidence : float
        Of the bootstrapped intervals of these differences, of all groups of a judging set at once;
        one that is refused lies above 0 as well.
    training : float
        How far a group may move if the same version is trained again, where it has too few units
        to show that by themselves.
    least_steps : int
        Steps of a group from which on it is judged by itself.
    resamples, seed : int
        Of the bootstrap.
    coverage : float
        What intervals state; ``coverage_below`` is how far below that the share of measurements
        inside may lie, of all and of each device, beside what chance explains.
    width_times : float
        How many times as wide intervals may be, in the median of ``ln(high / low)``.
    bias : float
        Largest ``|median ln(T^ / T)|`` of all, which no unit that is wrong stays below.
    least_spread : float
        Smallest spread of the logarithms of answers, as a share of that of measurements.
    size_bytes, load_time_s : float
        At most; ``size_times``, ``load_times`` at most so many times those of the serving version,
        where that is more than ``small_bytes``, ``short_load_s``.
    answers_share : float
        At least this share of the answers a second of the serving version.
    """

    error: float = 0.02
    family_error: float = 0.04
    confidence: float = 0.95
    training: float = 0.1
    least_steps: int = 8
    resamples: int = 400
    seed: int = 0
    coverage: float = 0.9
    coverage_below: float = 0.05
    width_times: float = 1.5
    bias: float = 0.5
    least_spread: float = 0.2
    size_bytes: float = 30e6
    size_times: float = 1.5
    small_bytes: float = 5e6
    load_time_s: float = 5.0
    load_times: float = 2.0
    short_load_s: float = 1.0
    answers_share: float = 0.7
