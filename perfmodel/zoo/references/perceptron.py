"""Multi-layer perceptron."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from perfmodel.zoo.losses import ClassificationLoss
from perfmodel.zoo.references.reference import Batch, Parts


def mlp(
    batch: Batch,
    in_features: int = 784,
    hidden_size: int = 1024,
    num_layers: int = 3,
    num_classes: int = 10,
) -> Parts:
    """Build ``num_layers`` linear layers with ReLU between them."""
    widths = [in_features, *[hidden_size] * (num_layers - 1), num_classes]
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return Parts(
        module=nn.Sequential(*layers[:-1]),
        args=(torch.randn(batch.size, in_features),),
        loss=ClassificationLoss(torch.randint(num_classes, (batch.size,))),
    )
