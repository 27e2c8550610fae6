"""How large the GNN is, and how it learns."""

from __future__ import annotations

from dataclasses import dataclass


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
