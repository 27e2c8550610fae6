"""From the sum of node times to the time of the step.

A step takes longer than its operators: the interpreter dispatches them, memory is handed out
and back. For each way of executing (mode and compiler)::

    step_s = scale * sum_of_nodes_s + per_node_s * nodes + per_step_s

with coefficients >= 0, fitted to relative errors by non-negative least squares, reweighted so
that single wild samples do not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor_checks import finite

#: Fewest samples of one way of executing that get coefficients of their own.
LEAST_SAMPLES = 12
_REWEIGHTINGS = 6
_SWEEPS = 400


@dataclass
class StepCalibration:
    """Coefficients per way of executing; key ``""`` holds for all others."""

    coefficients_: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def fit(
        self,
        workloads: Sequence[Workload],
        node_sums_s: FloatArray,
        step_times_s: FloatArray,
        weights: FloatArray,
    ) -> StepCalibration:
        """Fit the coefficients of every way of executing that has enough samples."""
        keys = np.array([_key(workload) for workload in workloads])
        nodes = np.array([len(workload.graph.nodes) for workload in workloads], dtype=np.float64)
        design = np.stack([node_sums_s, nodes, np.ones_like(nodes)], axis=1)
        self.coefficients_ = {"": _robust(design, step_times_s, weights)}
        for key in sorted(set(keys.tolist())):
            chosen = keys == key
            if chosen.sum() >= LEAST_SAMPLES:
                self.coefficients_[key] = _robust(
                    design[chosen], step_times_s[chosen], weights[chosen]
                )
        return self

    def step_times(self, workloads: Sequence[Workload], node_sums_s: FloatArray) -> FloatArray:
        """Return the step time of each workload from its sum of node times."""
        rows = [self.coefficients_.get(_key(w), self.coefficients_[""]) for w in workloads]
        scale, per_node, per_step = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        nodes = np.array([len(w.graph.nodes) for w in workloads], dtype=np.float64)
        return scale * node_sums_s + per_node * nodes + per_step

    def to_dict(self) -> dict[str, list[float]]:
        """Return the coefficients as JSON values."""
        return {key: list(row) for key, row in self.coefficients_.items()}

    @classmethod
    def from_dict(cls, stored: Any, path: Path) -> StepCalibration:
        """Read the coefficients back.

        Raises
        ------
        DamagedArtifactError
            Anything but three finite numbers >= 0 per key.
        """
        if not isinstance(stored, Mapping) or "" not in stored:
            raise DamagedArtifactError(f"{path} holds no step calibration.")
        rows: dict[str, tuple[float, float, float]] = {}
        for key, row in stored.items():
            if not isinstance(row, list) or len(row) != 3:
                raise DamagedArtifactError(f"{path}: step calibration {key!r} needs 3 numbers.")
            scale, per_node, per_step = (finite(value, path, low=0.0) for value in row)
            rows[key] = (scale, per_node, per_step)
        return cls(rows)


def _key(workload: Workload) -> str:
    return f"{workload.mode.value}/{workload.compiler.value}"


def _robust(
    design: FloatArray, times_s: FloatArray, weights: FloatArray
) -> tuple[float, float, float]:
    """Non-negative fit of ``design @ x / times = 1`` with weights ``1 / max(|error|, 5 %)``."""
    relative = design / times_s[:, None]
    trust = weights.copy()
    solution = np.zeros(design.shape[1])
    for _ in range(_REWEIGHTINGS):
        solution = non_negative_least_squares(relative, np.ones(len(times_s)), trust)
        error = np.abs(relative @ solution - 1.0)
        trust = weights / np.maximum(error, 0.05)
    scale, per_node, per_step = (float(value) for value in solution)
    return scale, per_node, per_step


def non_negative_least_squares(
    design: FloatArray, target: FloatArray, weights: FloatArray
) -> FloatArray:
    """Minimise ``sum w (design @ x - target)^2`` over ``x >= 0`` by coordinate descent.

    Parameters
    ----------
    design : ndarray, shape (rows, columns)
    target, weights : ndarray, shape (rows,)

    Returns
    -------
    ndarray, shape (columns,)
        Exact to 1e-12 for a handful of columns; a column of zeros gets 0.

    Examples
    --------
    >>> non_negative_least_squares(np.eye(2), np.array([3.0, -1.0]), np.ones(2)).tolist()
    [3.0, 0.0]
    """
    size = np.sqrt((weights[:, None] * design**2).sum(axis=0))
    scaled = design / np.where(size > 0, size, 1.0)
    gram = scaled.T @ (weights[:, None] * scaled)
    right = scaled.T @ (weights * target)
    solution = np.zeros(design.shape[1])
    for _ in range(_SWEEPS):
        before = solution.copy()
        for column in np.flatnonzero(size > 0):
            rest = right[column] - gram[column] @ solution + gram[column, column] * solution[column]
            solution[column] = max(0.0, rest / gram[column, column])
        if np.abs(solution - before).max() <= 1e-12 * max(1.0, np.abs(solution).max()):
            break
    return np.where(size > 0, solution / np.where(size > 0, size, 1.0), 0.0)
