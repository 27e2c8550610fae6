"""What every predictor checks the same way: its samples, and its own answers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.roofline import step_bound_s
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Sample

#: No step takes less: the answer for a graph without any priced work.
SHORTEST_STEP_S = 1e-7


def check_samples(samples: Sequence[Sample], *, least: int = 2) -> None:
    """Refuse samples from which nothing can be learned.

    Parameters
    ----------
    least : int
        Fewest samples that make sense.

    Raises
    ------
    TrainingError
        Too few, or a time or a weight that is not finite and positive.
    """
    if len(samples) < least:
        raise TrainingError(
            f"Got {len(samples)} samples, need at least {least}. Profile more workloads."
        )
    for position, sample in enumerate(samples):
        name = sample.model or f"sample {position}"
        for label, value in (("step time", sample.step_time_s), ("weight", sample.weight)):
            if not (math.isfinite(value) and value > 0):
                raise TrainingError(
                    f"The {label} of {name} is {value!r}; it must be finite and above 0."
                )
        if not sample.workload.graph.nodes:
            raise TrainingError(f"The graph of {name} has no nodes; capture it again.")
        for node, time_s in sample.node_times_s.items():
            if not (math.isfinite(time_s) and time_s >= 0):
                raise TrainingError(
                    f"The time of node {node} of {name} is {time_s!r}; it must be finite and "
                    "not negative."
                )
            if not 0 <= node < len(sample.workload.graph.nodes):
                raise TrainingError(
                    f"{name} has a time for node {node}, but its graph has "
                    f"{len(sample.workload.graph.nodes)} nodes."
                )


def not_below_bound(times_s: FloatArray, workloads: Sequence[Workload]) -> FloatArray:
    """Raise answers to the time that no step of the workload can beat."""
    bounds = np.array([step_bound_s(workload) for workload in workloads], dtype=np.float64)
    return np.maximum(times_s, np.maximum(bounds, SHORTEST_STEP_S))


def scaled_to(node_times_s: FloatArray, step_s: float) -> FloatArray:
    """Return node times scaled to add up to the step; as they are when all are 0."""
    total = float(node_times_s.sum())
    return np.asarray(node_times_s * (step_s / total if total > 0 else 1.0))


def unfitted(name: str) -> TrainingError:
    """Return the error of a predictor that is asked before it has learned."""
    return TrainingError(f"The predictor {name!r} has learned nothing yet; call fit() or load().")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object, without NaN, keys sorted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json_bytes(value))


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return a JSON object as :func:`write_json` writes it."""
    return (json.dumps(value, allow_nan=False, indent=1, sort_keys=True) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    DamagedArtifactError
        A file that cannot be read or holds something else.
    """
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DamagedArtifactError(f"{path} cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise DamagedArtifactError(f"{path} holds {type(value).__name__}, not an object.")
    return value


def finite(value: Any, path: Path, *, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a stored number, or refuse it.

    Raises
    ------
    DamagedArtifactError
        Not a finite number within the bounds.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DamagedArtifactError(f"{path} holds {value!r} where a number belongs.")
    number = float(value)
    if not (math.isfinite(number) and low <= number <= high):
        raise DamagedArtifactError(f"{path} holds {value!r}, outside [{low}, {high}].")
    return number
