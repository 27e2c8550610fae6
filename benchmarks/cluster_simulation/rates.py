"""Rates of jobs on kinds of accelerators, alone and in pairs: those measured and those seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from cluster_simulation.rounds import FloatArray, Placed

from perfmodel.adapters.measured.gavel_rates import ALONE, Key

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """A table of rates in steps/s, added up over all accelerators of a job.

    Parameters
    ----------
    keys : tuple
        Job types with their accelerators.
    kinds : tuple of str
        Of accelerators.
    alone : ndarray, shape (keys, kinds)
        0 where a job does not run.
    beside : ndarray, shape (keys, keys, kinds)
        Of the first job beside the second; NaN where nobody knows, 0 where they do not run.
    """

    keys: tuple[Key, ...]
    kinds: tuple[str, ...]
    alone: FloatArray
    beside: FloatArray

    @classmethod
    def of_table(
        cls,
        table: Mapping[str, Mapping[Any, Mapping[Any, Any]]],
        keys: Sequence[Key],
        kinds: Sequence[str],
    ) -> Rates:
        """Read a table as Gavel holds it; NaN where it has no entry."""
        position = {key: row for row, key in enumerate(keys)}
        alone = np.full((len(keys), len(kinds)), np.nan)
        beside = np.full((len(keys), len(keys), len(kinds)), np.nan)
        for column, kind in enumerate(kinds):
            for key, row in position.items():
                for partner, rate in table[kind].get(key, {}).items():
                    if partner == ALONE:
                        alone[row, column] = rate
                    elif partner in position:
                        both = np.array(rate, dtype=np.float64)
                        beside[row, position[partner], column] = both[0] if both.all() else 0.0
        return cls(keys=tuple(keys), kinds=tuple(kinds), alone=alone, beside=beside)

    @property
    def accelerators(self) -> FloatArray:
        """Accelerators of each key."""
        return np.array([key[1] for key in self.keys], dtype=np.float64)

    def usable(self) -> Rates:
        """Return a table without gaps: as a scheduler completes one that is not answered in full.

        Where a job has no rate, each accelerator gets the mean of those that the job, or else its
        type, does have, or one step/s, so that no kind is preferred. One that fits nowhere is tried
        everywhere, and jobs of which no pair is known are not paired.
        """
        alone = np.where((self.alone > 0).any(axis=1, keepdims=True), self.alone, np.nan)
        each = alone / self.accelerators[:, None]
        labels = np.array([label for label, _ in self.keys])
        for row in np.flatnonzero(np.isnan(each).any(axis=1)):
            near = next(
                (some for some in (each[row], each[labels == labels[row]]) if (some > 0).any()),
                np.ones(1),
            )
            rate = float(np.mean(near[near > 0])) * self.accelerators[row]
            alone[row] = np.where(np.isnan(alone[row]), rate, alone[row])
        return replace(self, alone=alone, beside=np.nan_to_num(self.beside, nan=0.0))


@dataclass(frozen=True, kw_only=True)
class MeasuredRates:
    """Rates at which the jobs of a trace run.

    Parameters
    ----------
    subjects : sequence of int
        Key of each job of the trace.
    """

    table: Rates
    subjects: Sequence[int]

    def rates(self, placed: Placed) -> tuple[float, ...]:
        """Return the rate of each job; 0 where it does not run or no pair was measured."""
        keys = [self.subjects[job] for job in placed.jobs]
        if len(keys) == 1:
            return (float(self.table.alone[keys[0], placed.kind]),)
        first, second = keys
        beside = self.table.beside[:, :, placed.kind]
        return tuple(np.nan_to_num([beside[first, second], beside[second, first]]).tolist())
