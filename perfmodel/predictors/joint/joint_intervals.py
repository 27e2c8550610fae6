"""Quantiles of standardised residuals, per rung of evidence and group of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.predictors.joint.job_memory import JobMemory

#: Fewest residuals from which a group gets a quantile of its own: from so many on, chance moves
#: what nine tenths of them cover by 3 %.
FEWEST = 100
#: Groups around a step: its own, that of all devices, and one more for each word that is dropped.
_DEPTHS = 6


class Rung(StrEnum):
    """What an answer rests on, as far as its interval is concerned."""

    NEW_JOB = "new_job"  # nothing of the job was measured
    KNOWN_JOB = "known_job"  # cells of the job, this device among the measured ones
    OTHER_DEVICES = "other_devices"  # cells of the job, none on this device
    NEW_DEVICE = "new_device"  # cells of the job; no job was trained on for this device

    @classmethod
    def of(cls, cells: int, on_device: bool, *, known_device: bool = True) -> Rung:
        """Return the rung of an answer for a job with so many cells, some on the device or none."""
        if not cells:
            return cls.NEW_JOB
        if not known_device:
            return cls.NEW_DEVICE
        return cls.KNOWN_JOB if on_device else cls.OTHER_DEVICES


@dataclass(frozen=True, kw_only=True)
class GroupQuantiles:
    """Quantiles by rung and group; a small group takes that of the larger one around it.

    Parameters
    ----------
    values : mapping
        From rung and words of a group (device, kind, mode, compiler, framework; fewer words are
        larger groups) to the quantile.
    """

    values: Mapping[tuple[str, ...], float]

    @classmethod
    def fit(
        cls,
        scores: Mapping[Rung, FloatArray],
        groups: Sequence[tuple[str, ...]],
        coverage: float,
    ) -> GroupQuantiles:
        """Measure the quantiles.

        Parameters
        ----------
        scores : mapping of Rung to ndarray, shape (steps,)
            Absolute residual over its standard deviation; NaN where the rung has none.
        groups : sequence of tuple of str
            (device, kind, mode, compiler, framework) of each step.
        """
        found: dict[tuple[str, ...], float] = {}
        for rung, values in scores.items():
            for depth in range(_DEPTHS):
                labels = [_around(group, depth) for group in groups]
                for label in sorted(set(labels)):
                    chosen = np.array([other == label for other in labels])
                    own = values[chosen & np.isfinite(values)]
                    if len(own) >= FEWEST or depth == _DEPTHS - 1:
                        found[(rung.value, *label)] = conformal_quantile(own, coverage)
        return cls(values=found)

    def at(self, rung: Rung, group: tuple[str, ...]) -> tuple[float, bool]:
        """Return the quantile of the smallest group that has one.

        Returns
        -------
        pooled : bool
            Nothing of the same kind, mode, compiler and framework was enough: it is that of more.
        """
        for depth in range(_DEPTHS):
            value = self.values.get((rung.value, *_around(group, depth)))
            if value is not None:
                return value, depth > 1
        return 2.0, True

    def to_list(self) -> list[Any]:
        """Return JSON values."""
        return [[list(key), value] for key, value in sorted(self.values.items())]

    @classmethod
    def from_list(cls, stored: Sequence[Any]) -> GroupQuantiles:
        """Read back what :meth:`to_list` gave."""
        return cls(values={tuple(map(str, key)): float(value) for key, value in stored})


def _around(group: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """Drop the device first, then framework, compiler, mode and kind."""
    return group[1 : len(group) - depth + 1] if depth else group


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the split-conformal quantile: the smallest that covers new scores as promised.

    Examples
    --------
    Of nine scores the ninth covers nine tenths of exchangeable new ones.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9)
    9.0
    """
    count = len(scores)
    if not count:
        return 2.0
    rank = min(int(np.ceil((count + 1) * coverage)), count)
    return float(np.sort(scores)[rank - 1])


def rung_scores(
    residuals: FloatArray,
    factor: FloatArray,
    jobs: Sequence[str],
    memory: JobMemory,
    abroad: JobMemory,
) -> dict[Rung, FloatArray]:
    """Return standardised residuals at every rung of evidence, each cell without itself.

    Parameters
    ----------
    residuals : ndarray, shape (steps,)
        Of members that had not seen the family, over what is usually left.
    factor : ndarray, shape (steps,)
        How much wider each answer is than is usual, by what has not seen its family.
    jobs : sequence of str
        Key of each step's job, in the order that the memories were filled in.
    memory, abroad : JobMemory
        Residuals by job, for known devices and for others.

    Returns
    -------
    mapping of Rung to ndarray, shape (steps,)
        NaN where a known job has no other cell to go by. On other devices a job that was measured
        on none but its own stands as it is, with nothing recalled: jobs that ran on several are
        few, and harder.
    """
    prior = np.sqrt(memory.prior_variance_)
    scores = {Rung.NEW_JOB: np.abs(residuals) / (prior * factor)}
    rungs = (
        (Rung.KNOWN_JOB, memory, False),
        (Rung.OTHER_DEVICES, memory, True),
        (Rung.NEW_DEVICE, abroad, True),
    )
    scores |= {rung: np.full(len(jobs), np.nan) for rung, _, _ in rungs}
    rows: dict[str, list[int]] = {}
    for i, job in enumerate(jobs):
        rows.setdefault(job, []).append(i)
    for job, own in rows.items():
        for rung, of_rung, other_devices in rungs:
            told = of_rung.left_out(job, range(len(own)), device=other_devices)
            for i, recalled, residual in zip(own, told, of_rung.cells_[job][1], strict=True):
                if recalled.cells or other_devices:
                    left = abs(residual - recalled.mean)
                    scores[rung][i] = left / (np.sqrt(recalled.variance) * factor[i])
    return scores
