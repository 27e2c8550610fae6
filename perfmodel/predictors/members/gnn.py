"""A graph neural network that learns node efficiencies from operators and from whole steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.graph_data import GRAPH_COLUMNS, StepData, step_data
from perfmodel.features.node_rows import node_rows
from perfmodel.features.roofline import SETTING_COLUMNS
from perfmodel.graph.workload import Workload
from perfmodel.predictors.members.gnn_network import StepNetwork
from perfmodel.predictors.members.gnn_settings import NetworkSettings
from perfmodel.predictors.network_weights import UNREADABLE, read_weights, write_weights
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    not_below_bound,
    read_json,
    scaled_to,
    unfitted,
    write_json,
)

_SETTINGS = len(SETTING_COLUMNS)
_GOLDEN_TOLERANCE = 1e-3


@final
class GraphPredictor(Predictor):
    """Message passing with a read-out that adds up node times.

    See :mod:`.gnn_network` for the equations. The loss joins both kinds of record:
    ``huber(log step) + node_weight * sum_i share_i * huber(log t_i)``.
    """

    name: ClassVar[str] = "gnn"

    def __init__(self, settings: NetworkSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or NetworkSettings(seed=seed)
        self.network_: StepNetwork | None = None

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Train the network; the same seed gives the same network."""
        check_samples(samples, least=2)
        # Imported here: answers need no torch.
        from perfmodel.predictors.members.gnn_learning import learn

        self.network_ = learn(samples, self.settings)
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the step time of each workload."""
        if self.network_ is None:
            raise unfitted(self.name)
        if not workloads:
            return np.zeros(0)
        logs = [self.network_.log_step(self._data(workload)) for workload in workloads]
        return not_below_bound(np.exp(logs), workloads)

    def predict_nodes(self, workload: Workload) -> FloatArray:
        """Return the time of each node, scaled to add up to the step."""
        if self.network_ is None:
            raise unfitted(self.name)
        per_class = self.network_.node_times(self._data(workload))
        classes = node_rows(workload, hops=self.settings.rounds).quotient.class_of_node
        times: FloatArray = per_class.astype(np.float64)[classes]
        return scaled_to(times, float(self.predict([workload])[0]))

    def _data(self, workload: Workload) -> StepData:
        return step_data(workload, hops=self.settings.rounds)

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the weights as safetensors, the settings and a golden answer as JSON."""
        if self.network_ is None:
            raise unfitted(self.name)
        folder.mkdir(parents=True, exist_ok=True)
        write_weights(folder / "gnn.safetensors", self.network_.weights)
        state = {
            "settings": asdict(self.settings),
            "columns": list(GRAPH_COLUMNS),
            "golden": _golden(self.network_),
        }
        write_json(folder / "gnn.state.json", state)
        return {"columns": list(GRAPH_COLUMNS), "hidden": self.settings.hidden}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote and check the golden answer."""
        path = folder / "gnn.state.json"
        state = read_json(path)
        if state.get("columns") != list(GRAPH_COLUMNS):
            raise DamagedArtifactError(
                f"{path} was trained on other feature columns than this version computes. "
                "Train the model again with this version."
            )
        try:
            settings = NetworkSettings(**state["settings"])
            if not (1 <= settings.hidden <= 1024 and 1 <= settings.rounds <= 16):
                raise ValueError(f"hidden={settings.hidden}, rounds={settings.rounds}")
            network = StepNetwork.of(
                read_weights(folder / "gnn.safetensors"),
                columns=len(GRAPH_COLUMNS),
                settings=_SETTINGS,
                hidden=settings.hidden,
                rounds=settings.rounds,
            )
            golden = np.array(state["golden"], dtype=np.float64)
        except UNREADABLE as error:
            raise DamagedArtifactError(
                f"The network in {folder} cannot be read: {error}. Train the model again."
            ) from error
        answers = np.array(_golden(network))
        if answers.shape != golden.shape or not np.allclose(
            answers, golden, rtol=_GOLDEN_TOLERANCE
        ):
            raise DamagedArtifactError(
                f"The network in {folder} answers differently than when it was written."
            )
        predictor = cls(settings)
        predictor.network_ = network
        return predictor


def _golden(network: StepNetwork) -> list[float]:
    """Node times of a fixed little graph: a ring of 8 nodes with features on a grid."""
    columns = len(GRAPH_COLUMNS)
    grid = np.sin(np.arange(8 * columns, dtype=np.float32)).reshape(8, columns)
    x = network.weights["mean"] + network.weights["scale"] * grid
    ring = np.stack([np.arange(8), (np.arange(8) + 1) % 8])
    seconds = np.full(8, 1e-4, dtype=np.float32)
    step = StepData(
        x=x,
        reads=ring,
        read_by=ring[::-1],
        count=np.ones(8, dtype=np.float32),
        bound_s=seconds,
        roofline_s=seconds,
        step_of=np.zeros(8, dtype=np.int64),
        first=np.zeros(1, dtype=np.int64),
    )
    factors = np.exp(network.log_factors(x[:, -_SETTINGS:]))
    return [*network.node_times(step).tolist(), *factors.tolist()]
