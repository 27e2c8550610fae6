"""Neural collaborative filtering: who will like what."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfmodel.zoo.losses import BinaryLoss
from perfmodel.zoo.reference import Batch, Parts


class NeuMf(nn.Module):
    """Matrix factorisation beside a perceptron, joined by one linear layer.

    Each user and each item has two vectors: one for the elementwise product, one for the
    perceptron, which is twice as wide as its output and halves from layer to layer.
    """

    def __init__(self, users: int, items: int, factors: int) -> None:
        super().__init__()
        self.user_product = nn.Embedding(users, factors)
        self.item_product = nn.Embedding(items, factors)
        self.user_deep = nn.Embedding(users, 2 * factors)
        self.item_deep = nn.Embedding(items, 2 * factors)
        self.deep = nn.Sequential(
            nn.Linear(4 * factors, 4 * factors), nn.ReLU(),
            nn.Linear(4 * factors, 2 * factors), nn.ReLU(),
            nn.Linear(2 * factors, factors), nn.ReLU(),
        )  # fmt: skip
        self.score = nn.Linear(2 * factors, 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Score pairs: two (B,) int64 to (B,)."""
        product = self.user_product(users) * self.item_product(items)
        deep = self.deep(torch.cat((self.user_deep(users), self.item_deep(items)), dim=1))
        scores: Tensor = self.score(torch.cat((product, deep), dim=1)).squeeze(1)
        return scores


def ncf(
    batch: Batch, num_users: int = 138493, num_items: int = 26744, num_factors: int = 64
) -> Parts:
    """Build NeuMF with the users and films of MovieLens-20M; a sample is a user-item pair."""
    return Parts(
        module=NeuMf(num_users, num_items, num_factors),
        args=(torch.randint(num_users, (batch.size,)), torch.randint(num_items, (batch.size,))),
        loss=BinaryLoss(torch.randint(2, (batch.size,)).float()),
    )
