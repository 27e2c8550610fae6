"""Capture a module of your own, with its training step, and look at what it costs.

.venv/bin/python examples/capture_own_module.py
"""

from __future__ import annotations

import torch
from torch import nn

from perfmodel.capture.torch import capture_module
from perfmodel.graph.cost import cost_table
from perfmodel.types import Mode, Phase


class Gate(nn.Module):
    """A gated linear block, as an example of a module that no library has."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply what was learned by a gate between 0 and 1."""
        return self.value(x) * torch.sigmoid(self.gate(x))


def main() -> None:
    model = nn.Sequential(Gate(512), nn.LayerNorm(512), nn.Linear(512, 10))
    graph = capture_module(
        model,
        (torch.empty(32, 512, device="meta"),),
        mode=Mode.TRAINING,
        optimizer="adamw",
    )
    costs = cost_table(graph)
    print(f"hash {graph.content_hash}, {len(graph.nodes)} operators")
    print(f"{graph.parameter_count} parameters, unpriced: {dict(costs.unpriced) or 'none'}")
    for phase in Phase:
        rows = [i for i, node in enumerate(graph.nodes) if node.phase is phase]
        print(f"{phase:<10} {len(rows):4} operators {costs.flops[rows].sum() / 1e6:9.2f} MFLOP")


if __name__ == "__main__":
    main()
