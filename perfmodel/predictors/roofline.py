"""The roofline: every node at the peaks of the device, nothing learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.roofline import node_roofline, node_work
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import SHORTEST_STEP_S, finite, read_json, write_json


@final
class RooflinePredictor(Predictor):
    """Adds up the roofline of all nodes.

    ``T = sum_i max(F_i / peak, B_i / bandwidth) + launch_s``; views launch nothing. Every
    operand is taken from memory: a step whose operands stay in the cache can be faster.

    Parameters
    ----------
    launch_s : float
        Overhead of one node that is no view, in seconds.
    """

    name: ClassVar[str] = "roofline"
    needs_fit: ClassVar[bool] = False

    def __init__(self, launch_s: float = 0.0) -> None:
        self.launch_s = launch_s

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Do nothing; there is nothing to learn."""
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the sum of the node times of each workload."""
        times = [self.predict_nodes(workload).sum() for workload in workloads]
        return np.maximum(np.array(times, dtype=np.float64), SHORTEST_STEP_S)

    def predict_nodes(self, workload: Workload) -> FloatArray:
        """Return the roofline of each node plus its launch."""
        launches = ~node_work(workload.graph).is_view
        return node_roofline(workload).roofline_s + self.launch_s * launches

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the settings."""
        write_json(folder / "roofline.json", {"launch_s": self.launch_s})
        return {"launch_s": self.launch_s}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the settings."""
        path = folder / "roofline.json"
        return cls(launch_s=finite(read_json(path).get("launch_s"), path, low=0.0))
