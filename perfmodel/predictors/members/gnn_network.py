"""The network behind the GNN predictor: message passing, then one time per node.

For every node, from its embedding ``h_i`` after message passing over its producers and its
consumers::

    efficiency_i = sigmoid(a . h_i)                 in (0, 1)
    overhead_i   = 1 us * exp(b . h_i)              > 0
    t_i          = bound_i / efficiency_i + overhead_i
    step         = exp(c . s) * sum_i count_i * t_i

``bound_i`` is the lower bound of :mod:`perfmodel.features.roofline` and ``s`` the settings of
the workload, so that only what physics does not say has to be learned.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

_OVERHEAD_UNIT_S = 1e-6
_LOG_OVERHEAD = (-3.0, 16.0)
_LOGIT = (-12.0, 12.0)
#: Read-out before training: efficiency 0.27, overhead 2.7 us.
_FIRST_GUESS = (-1.0, 1.0)


class NeighbourMean(nn.Module):
    r"""Tell every node the mean of its neighbours: :math:`y_i = W \bar h_{N(i)} + b + V h_i`.

    Answers what ``torch_geometric.nn.SAGEConv``, with which a network learns, answers with the
    same weights, and bears the same names; a service need not import that library, which takes
    longer than all the rest of its start.

    References
    ----------
    Hamilton, Ying, Leskovec, Inductive Representation Learning on Large Graphs, 2017.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lin_l = nn.Linear(hidden, hidden)
        self.lin_r = nn.Linear(hidden, hidden, bias=False)

    def forward(self, state: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Return the new rows; a node without neighbours hears zeros.

        Parameters
        ----------
        state : Tensor, shape (nodes, hidden)
        edges : Tensor of int64, shape (2, edges)
            From and to.
        """
        source, target = edges
        total = torch.zeros_like(state).index_add(0, target, state[source])
        heard = torch.zeros_like(state[:, 0]).index_add(
            0, target, torch.ones_like(state[source, 0])
        )
        mean = total / heard.clamp(min=1.0)[:, None]
        found: torch.Tensor = self.lin_l(mean) + self.lin_r(state)
        return found


def learning_convolution(hidden: int) -> nn.Module:
    """Return the layer that a network learns with."""
    from torch_geometric.nn import SAGEConv

    layer: nn.Module = SAGEConv(hidden, hidden)
    return layer


class StepNetwork(nn.Module):
    """Message passing over operators with an additive read-out.

    Parameters
    ----------
    columns : int
        Width of a node's feature row.
    settings : int
        How many of the last columns describe the workload, not the node.
    rounds : int
        Rounds of message passing.
    convolution : callable
        Makes a layer of messages of a width.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self,
        columns: int,
        settings: int,
        hidden: int,
        rounds: int,
        convolution: Callable[[int], nn.Module] = NeighbourMean,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        self.encode = nn.Sequential(
            nn.Linear(columns, hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        )
        self.from_producers = nn.ModuleList(convolution(hidden) for _ in range(rounds))
        self.from_consumers = nn.ModuleList(convolution(hidden) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(rounds))
        self.read_out = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2))
        self.step_factor = nn.Linear(settings, 1)
        nn.init.zeros_(self.step_factor.weight)
        nn.init.zeros_(self.step_factor.bias)
        last = self.read_out[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias.copy_(torch.tensor(_FIRST_GUESS))

    def node_times(
        self,
        x: torch.Tensor,
        reads: torch.Tensor,
        read_by: torch.Tensor,
        bound_s: torch.Tensor,
    ) -> torch.Tensor:
        """Return the time of each node in seconds, shape (nodes,)."""
        state = self.encode((x - self.mean) / self.scale)
        for producers, consumers, norm in zip(
            self.from_producers, self.from_consumers, self.norms, strict=True
        ):
            message = producers(state, reads) + consumers(state, read_by)
            state = state + nn.functional.silu(norm(message))
        logit, log_overhead = self.read_out(state).unbind(-1)
        efficiency = torch.sigmoid(logit.clamp(*_LOGIT))
        overhead = _OVERHEAD_UNIT_S * torch.exp(log_overhead.clamp(*_LOG_OVERHEAD))
        return bound_s / efficiency + overhead

    def log_factors(self, settings: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of step time over node times, shape (steps,)."""
        count = self.settings
        scaled = (settings - self.mean[-count:]) / self.scale[-count:]
        factor: torch.Tensor = self.step_factor(scaled)
        return factor.squeeze(-1).clamp(-2.0, 2.0)
