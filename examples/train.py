"""A model of one's own in a file of one's own.

.venv/bin/perfmodel predict examples/train.py:model --inputs 1x3x224x224 --batch-size 32 --on L4
"""

from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    """A convolution beside a way past it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what was learned to what came in."""
        return x + torch.relu(self.norm(self.conv(x)))


def model() -> nn.Module:
    """Make the network; the shapes of its inputs are given beside."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3),
        *(Residual(64) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def with_inputs() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Make the network with a batch of inputs, in the place of ``--inputs``."""
    return model(), (torch.empty(32, 3, 224, 224),)


if __name__ == "__main__":
    print(f"{sum(parameter.numel() for parameter in model().parameters())} parameters")
