"""How far a step lies from everything that was learned from, by the shape of its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.whole_step import SHAPE_COLUMNS

#: Beyond this share of the distances a step is new.
_OUTSIDE = 0.975
#: Graphs of one model that may stand before the next model.
_GRAPHS_OF_A_MODEL = 16
#: Steps whose distances to all graphs are worked out at once, and how far off their squares may be
#: in float32, as a share of the squares that they are differences of.
_AT_ONCE, _ROUNDING = 256, 1e-5


class Novelty:
    """Distance to the nearest graph of another family.

    Attributes
    ----------
    points_ : ndarray of float32, shape (graphs, columns)
        Standardised shape columns of the graphs learned from.
    labels_ : tuple of str
        Model of each.
    jobs_ : tuple of str
        Job of each, as :class:`.job_memory.JobMemory` knows it.
    outside_ : float
        Distance beyond which a step is out of distribution.
    """

    def fit(
        self,
        rows: npt.NDArray[np.float32],
        labels: Sequence[str],
        families: npt.NDArray[np.str_],
        graphs: npt.NDArray[np.int64],
        jobs: Sequence[str],
    ) -> Novelty:
        """Learn from the whole-step columns of steps of several families.

        Parameters
        ----------
        rows : ndarray, shape (steps, len(WHOLE_COLUMNS))
        graphs : ndarray of int64
            Which steps share a graph.
        """
        _, first, of_step = np.unique(graphs, return_index=True, return_inverse=True)
        shape = rows[first][:, SHAPE_COLUMNS].astype(np.float64)
        self.mean_, self.scale_ = shape.mean(axis=0), shape.std(axis=0) + 1e-2
        self.points_ = ((shape - self.mean_) / self.scale_).astype(np.float32)
        self.labels_ = tuple(labels[i] for i in first)
        self.jobs_ = tuple(jobs[i] for i in first)
        distance = self._to_other_families(families[first])[of_step]
        self.outside_ = float(np.quantile(distance, _OUTSIDE))
        self._graphs = _Points.of(self.points_)
        return self

    def _to_other_families(self, families: npt.NDArray[np.str_]) -> FloatArray:
        distance = np.full(len(families), np.inf)
        for family in np.unique(families):
            own = families == family
            if own.all():
                continue
            distance[own], _ = _Points.of(self.points_[~own]).nearest(self.points_[own])
        known = distance[np.isfinite(distance)]
        return np.where(np.isfinite(distance), distance, known.max() if len(known) else 1.0)

    def shapes(self, rows: npt.NDArray[np.float32]) -> FloatArray:
        """Return what each step is made of, in standard deviations of the graphs learned from.

        Returns
        -------
        ndarray, shape (steps, shape columns)
        """
        return np.asarray((rows[:, SHAPE_COLUMNS] - self.mean_) / self.scale_)

    def measure(self, rows: npt.NDArray[np.float32]) -> tuple[FloatArray, list[str]]:
        """Return the distance of each step, and its nearest model."""
        distance, nearest = self._graphs.nearest(self.shapes(rows).astype(np.float32))
        return distance, [self.labels_[i] for i in nearest.tolist()]

    def neighbours(self, row: npt.NDArray[np.float32], most: int) -> list[tuple[int, float]]:
        """Return the nearest graphs by position and how far they are, one of each model."""
        shape = ((row[list(SHAPE_COLUMNS)] - self.mean_) / self.scale_).astype(np.float32)
        # A model has several graphs: of each batch size and mode that was measured.
        looked_at = min(_GRAPHS_OF_A_MODEL * most, len(self.labels_))
        distance = _distances(self._graphs.at, shape)
        found: dict[str, tuple[int, float]] = {}
        for i in np.argsort(distance, kind="stable")[:looked_at].tolist():
            found.setdefault(self.labels_[i], (i, float(distance[i])))
        return list(found.values())[:most]

    def arrays(self) -> dict[str, Any]:
        """Return what was learned as arrays, labels aside."""
        return {
            "points": self.points_,
            "mean": self.mean_,
            "scale": self.scale_,
            "outside": np.array([self.outside_]),
        }

    @classmethod
    def of(cls, arrays: dict[str, Any], labels: Sequence[str], jobs: Sequence[str]) -> Novelty:
        """Read back what :meth:`arrays` gave."""
        novelty = cls()
        novelty.points_ = arrays["points"]
        novelty.mean_, novelty.scale_ = arrays["mean"], arrays["scale"]
        novelty.outside_ = float(arrays["outside"][0])
        novelty.labels_, novelty.jobs_ = tuple(labels), tuple(jobs)
        novelty._graphs = _Points.of(novelty.points_)
        return novelty


@dataclass(frozen=True, kw_only=True, eq=False)
class _Points:
    """Points of graphs, with the least and the most that their squared norms may be."""

    at: npt.NDArray[np.float32]
    least: npt.NDArray[np.float32]
    most: npt.NDArray[np.float32]

    @classmethod
    def of(cls, points: npt.NDArray[np.float32]) -> _Points:
        squares = np.einsum("ij,ij->i", points, points)
        return cls(at=points, least=(1 - _ROUNDING) * squares, most=(1 + _ROUNDING) * squares)

    def nearest(self, asked: npt.NDArray[np.float32]) -> tuple[FloatArray, IntArray]:
        """Return the distance from each asked point to the nearest one, and which it is.

        Products of matrices tell which points may be the nearest, to rounding, which depends on
        what is asked beside; the distances of those few are then worked out one by one.
        """
        doubt = 2.0 * _ROUNDING * np.einsum("ij,ij->i", asked, asked)
        distance, nearest = np.zeros(len(asked)), np.zeros(len(asked), dtype=np.int64)
        for begin in range(0, len(asked), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            products = (2.0 * asked[some]) @ self.at.T
            limits = (self.most - products).min(axis=1) + doubt[some]
            close = self.least - products <= limits[:, None]
            for i, row in enumerate(close, start=begin):
                near = np.flatnonzero(row)
                exact = _distances(self.at[near], asked[i])
                nearest[i], distance[i] = near[exact.argmin()], exact.min()
        return distance, nearest


def _distances(points: npt.NDArray[np.float32], asked: npt.NDArray[np.float32]) -> FloatArray:
    """Return the distance of each point to the one asked about."""
    apart = points.astype(np.float64) - asked
    return np.asarray(np.sqrt((apart * apart).sum(axis=1)))
