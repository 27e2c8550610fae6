"""A graph neural network that learns node efficiencies from operators and from whole steps.

Needs torch and safetensors, to learn also torch-geometric; imported only when asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.errors import DamagedArtifactError, MissingExtraError
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.workload import Workload
from perfmodel.predictors.members.node_times import class_times
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    not_below_bound,
    read_json,
    scaled_to,
    unfitted,
    write_json,
)

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load as load_tensors
    from safetensors.torch import save as save_tensors

    from perfmodel.features.graph_data import GRAPH_COLUMNS, StepData, step_data
    from perfmodel.predictors.members.gnn_network import StepNetwork, learning_convolution
except ImportError as error:
    raise MissingExtraError("The GNN predictor", extra="train") from error

from perfmodel.features.node_rows import node_rows
from perfmodel.features.roofline import SETTING_COLUMNS

_SETTINGS = len(SETTING_COLUMNS)
_GOLDEN_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Size and training of the network.

    Parameters
    ----------
    hidden, rounds : int
        Width, and rounds of message passing.
    epochs, batch : int
        Passes over the samples; graphs per step of the optimizer.
    node_weight : float
        Weight of the operator loss beside the step loss.
    """

    hidden: int = 48
    rounds: int = 2
    epochs: int = 40
    batch: int = 8
    learning_rate: float = 4e-3
    weight_decay: float = 1e-3
    node_weight: float = 1.0
    seed: int = 0


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
        data = [_Lesson.of(sample, self.settings.rounds) for sample in samples]
        with _deterministic(self.settings.seed):
            network = StepNetwork(
                len(GRAPH_COLUMNS),
                _SETTINGS,
                self.settings.hidden,
                self.settings.rounds,
                learning_convolution,
            )
            _standardise(network, data)
            _train(network, data, self.settings)
        self.network_ = network.eval()
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the step time of each workload, all in one batch."""
        if self.network_ is None:
            raise unfitted(self.name)
        if not workloads:
            return np.zeros(0)
        times = [_answer(self.network_, chunk) for chunk in _chunks(self._data(workloads))]
        return not_below_bound(np.concatenate(times), workloads)

    def predict_nodes(self, workload: Workload) -> FloatArray:
        """Return the time of each node, scaled to add up to the step."""
        if self.network_ is None:
            raise unfitted(self.name)
        data = self._data([workload])[0]
        with torch.inference_mode():
            per_class = self.network_.node_times(data.x, data.reads, data.read_by, data.bound_s)
        classes = node_rows(workload, hops=self.settings.rounds).quotient.class_of_node
        times: FloatArray = per_class.numpy().astype(np.float64)[classes]
        return scaled_to(times, float(self.predict([workload])[0]))

    def _data(self, workloads: Sequence[Workload]) -> list[StepData]:
        return [step_data(workload, hops=self.settings.rounds) for workload in workloads]

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the weights as safetensors, the settings and a golden answer as JSON."""
        if self.network_ is None:
            raise unfitted(self.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gnn.safetensors").write_bytes(save_tensors(self.network_.state_dict()))
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
            network = StepNetwork(len(GRAPH_COLUMNS), _SETTINGS, settings.hidden, settings.rounds)
            network.load_state_dict(load_tensors((folder / "gnn.safetensors").read_bytes()))
            golden = np.array(state["golden"], dtype=np.float64)
        except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
            raise DamagedArtifactError(
                f"The network in {folder} cannot be read: {error}. Train the model again."
            ) from error
        network.eval()
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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Lesson:
    """Steps with what is to be learned of them: logarithms of seconds, and weights."""

    step: StepData
    node_log_time: torch.Tensor
    node_share: torch.Tensor
    log_time: torch.Tensor
    weight: torch.Tensor

    @classmethod
    def of(cls, sample: Sample, rounds: int) -> _Lesson:
        times = class_times(sample, node_rows(sample.workload, hops=rounds))
        total = times.mean_s * times.measured
        seen = times.measured / max(times.measured.sum(), 1.0)
        share = total / max(total.sum(), 1e-12) + 0.2 * seen
        return cls(
            step=step_data(sample.workload, hops=rounds),
            node_log_time=torch.from_numpy(np.log(np.maximum(times.mean_s, 1e-7))).float(),
            node_share=torch.from_numpy(share).float(),
            log_time=torch.tensor([np.log(sample.step_time_s)], dtype=torch.float32),
            weight=torch.tensor([sample.weight], dtype=torch.float32),
        )

    @classmethod
    def join(cls, lessons: Sequence[_Lesson]) -> _Lesson:
        return cls(
            step=StepData.join([lesson.step for lesson in lessons]),
            node_log_time=torch.cat([lesson.node_log_time for lesson in lessons]),
            node_share=torch.cat([lesson.node_share for lesson in lessons]),
            log_time=torch.cat([lesson.log_time for lesson in lessons]),
            weight=torch.cat([lesson.weight for lesson in lessons]),
        )


def _standardise(network: StepNetwork, data: Sequence[_Lesson]) -> None:
    """Centre and scale every column over the training nodes; constant columns stay as 0."""
    stacked = torch.cat([item.step.x for item in data]).double()
    spread = stacked.std(dim=0)
    network.mean.copy_(stacked.mean(dim=0).float())
    network.scale.copy_(torch.where(spread > 1e-4, spread, torch.ones_like(spread)).float())


def _train(network: StepNetwork, data: Sequence[_Lesson], settings: NetworkSettings) -> None:
    order = np.random.default_rng(settings.seed)
    steps = settings.epochs * -(-len(data) // settings.batch)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=settings.learning_rate, total_steps=steps, pct_start=0.2
    )
    network.train()
    for _ in range(settings.epochs):
        shuffled = order.permutation(len(data))
        for start in range(0, len(data), settings.batch):
            chosen = [data[i] for i in shuffled[start : start + settings.batch]]
            loss = _loss(network, _Lesson.join(chosen), settings.node_weight)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()


def _loss(network: StepNetwork, batch: _Lesson, node_weight: float) -> torch.Tensor:
    step, steps = batch.step, len(batch.log_time)
    times = network.node_times(step.x, step.reads, step.read_by, step.bound_s)
    error = _log_steps(network, step, times) - batch.log_time
    of_steps = (batch.weight * _huber(error)).sum() / batch.weight.sum()
    node_error = torch.log(times) - batch.node_log_time
    of_nodes = (batch.node_share * _huber(node_error)).sum() / max(1, steps)
    total: torch.Tensor = of_steps + node_weight * of_nodes
    return total


def _log_steps(network: StepNetwork, data: StepData, times: torch.Tensor) -> torch.Tensor:
    sums = torch.zeros(len(data.first), dtype=times.dtype)
    sums = sums.index_add(0, data.step_of, times * data.count)
    settings = data.x[data.first, -_SETTINGS:]
    return torch.log(sums) + network.log_factors(settings)


def _huber(error: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.huber_loss(
        error, torch.zeros_like(error), delta=0.3, reduction="none"
    )


def _answer(network: StepNetwork, data: Sequence[StepData]) -> FloatArray:
    with torch.inference_mode():
        batch = StepData.join(data)
        times = network.node_times(batch.x, batch.reads, batch.read_by, batch.bound_s)
        answers: FloatArray = torch.exp(_log_steps(network, batch, times)).double().numpy()
    return answers


def _chunks(data: list[StepData], size: int = 32) -> Iterator[list[StepData]]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def _golden(network: StepNetwork) -> list[float]:
    """Node times of a fixed little graph: a ring of 8 nodes with features on a grid."""
    columns = len(GRAPH_COLUMNS)
    grid = torch.arange(8 * columns, dtype=torch.float32).reshape(8, columns)
    x = network.mean + network.scale * torch.sin(grid)
    ring = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])
    with torch.inference_mode():
        times = network.node_times(x, ring, ring.flip(0), torch.full((8,), 1e-4))
        factors = network.log_factors(x[:, -_SETTINGS:])
    return [*times.double().tolist(), *torch.exp(factors).double().tolist()]


@contextlib.contextmanager
def _deterministic(seed: int) -> Iterator[None]:
    """Seed torch inside the block, on one thread; leave generator and threads as they were.

    One thread adds in one order, and does not wait for a second one that is kept busy.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
