"""How the GNN learns: gradients of the equations in :mod:`.gnn_network`.

Needs torch and torch-geometric.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.errors import MissingExtraError
from perfmodel.features.graph_data import GRAPH_COLUMNS, StepData, step_data
from perfmodel.features.node_rows import node_rows
from perfmodel.features.roofline import SETTING_COLUMNS
from perfmodel.predictors.members.gnn_network import (
    LOG_FACTOR,
    LOG_OVERHEAD,
    LOGIT,
    OVERHEAD_UNIT_S,
    StepNetwork,
)
from perfmodel.predictors.members.gnn_settings import NetworkSettings
from perfmodel.predictors.members.node_times import class_times
from perfmodel.predictors.predictor import Sample

try:
    import torch
    from torch import nn
    from torch_geometric.nn import SAGEConv
except ImportError as error:
    raise MissingExtraError("Training the GNN predictor", extra="train") from error

_SETTINGS = len(SETTING_COLUMNS)
#: Read-out before training: efficiency 0.27, overhead 2.7 us.
_FIRST_GUESS = (-1.0, 1.0)


class LearningNetwork(nn.Module):
    """A :class:`.gnn_network.StepNetwork` with gradients; parameters bear the names of weights.

    Parameters
    ----------
    columns, settings, hidden, rounds : int
        As of :meth:`.gnn_network.StepNetwork.of`.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, columns: int, settings: int, hidden: int, rounds: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        self.encode = nn.Sequential(
            nn.Linear(columns, hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        )
        self.from_producers = nn.ModuleList(SAGEConv(hidden, hidden) for _ in range(rounds))
        self.from_consumers = nn.ModuleList(SAGEConv(hidden, hidden) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(rounds))
        self.read_out = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2))
        self.step_factor = nn.Linear(settings, 1)
        nn.init.zeros_(self.step_factor.weight)
        nn.init.zeros_(self.step_factor.bias)
        last = self.read_out[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias.copy_(torch.tensor(_FIRST_GUESS))

    def node_times(self, step: StepData) -> torch.Tensor:
        """Return the time of each node of some steps in seconds, shape (nodes,)."""
        reads, read_by = torch.from_numpy(step.reads), torch.from_numpy(step.read_by)
        state = self.encode((torch.from_numpy(step.x) - self.mean) / self.scale)
        for producers, consumers, norm in zip(
            self.from_producers, self.from_consumers, self.norms, strict=True
        ):
            message = producers(state, reads) + consumers(state, read_by)
            state = state + nn.functional.silu(norm(message))
        logit, log_overhead = self.read_out(state).unbind(-1)
        efficiency = torch.sigmoid(logit.clamp(*LOGIT))
        overhead = OVERHEAD_UNIT_S * torch.exp(log_overhead.clamp(*LOG_OVERHEAD))
        return torch.from_numpy(step.bound_s) / efficiency + overhead

    def log_factors(self, settings: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of step time over node times, shape (steps,)."""
        count = self.settings
        scaled = (settings - self.mean[-count:]) / self.scale[-count:]
        factor: torch.Tensor = self.step_factor(scaled)
        return factor.squeeze(-1).clamp(*LOG_FACTOR)

    def learned(self) -> StepNetwork:
        """Return the network that answers."""
        kept = {name: one.detach().numpy() for name, one in self.state_dict().items()}
        return StepNetwork.of(
            kept,
            columns=len(self.mean),
            settings=self.settings,
            hidden=len(kept["encode.2.bias"]),
            rounds=len(self.norms),
        )


def learn(samples: Sequence[Sample], settings: NetworkSettings) -> StepNetwork:
    """Train a network; the same seed gives the same network."""
    data = [_Lesson.of(sample, settings.rounds) for sample in samples]
    with _deterministic(settings.seed):
        network = LearningNetwork(len(GRAPH_COLUMNS), _SETTINGS, settings.hidden, settings.rounds)
        _standardise(network, data)
        _train(network, data, settings)
    return network.learned()


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


def _standardise(network: LearningNetwork, data: Sequence[_Lesson]) -> None:
    """Centre and scale every column over the training nodes; constant columns stay as 0."""
    stacked = torch.from_numpy(np.concatenate([item.step.x for item in data])).double()
    spread = stacked.std(dim=0)
    network.mean.copy_(stacked.mean(dim=0).float())
    network.scale.copy_(torch.where(spread > 1e-4, spread, torch.ones_like(spread)).float())


def _train(network: LearningNetwork, data: Sequence[_Lesson], settings: NetworkSettings) -> None:
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


def _loss(network: LearningNetwork, batch: _Lesson, node_weight: float) -> torch.Tensor:
    step, steps = batch.step, len(batch.log_time)
    times = network.node_times(step)
    error = _log_steps(network, step, times) - batch.log_time
    of_steps = (batch.weight * _huber(error)).sum() / batch.weight.sum()
    node_error = torch.log(times) - batch.node_log_time
    of_nodes = (batch.node_share * _huber(node_error)).sum() / max(1, steps)
    total: torch.Tensor = of_steps + node_weight * of_nodes
    return total


def _log_steps(network: LearningNetwork, data: StepData, times: torch.Tensor) -> torch.Tensor:
    sums = torch.zeros(len(data.first), dtype=times.dtype)
    count = torch.from_numpy(data.count)
    sums = sums.index_add(0, torch.from_numpy(data.step_of), times * count)
    settings = torch.from_numpy(data.x[data.first, -_SETTINGS:])
    return torch.log(sums) + network.log_factors(settings)


def _huber(error: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.huber_loss(
        error, torch.zeros_like(error), delta=0.3, reduction="none"
    )


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
