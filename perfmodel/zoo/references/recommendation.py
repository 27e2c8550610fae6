"""Who will like what: neural collaborative filtering and an autoencoder of histories."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfmodel.zoo.losses import BinaryLoss
from perfmodel.zoo.references.reference import Batch, Parts


class NeuMf(nn.Module):
    """Matrix factorisation beside a perceptron, joined by one linear layer.

    Each user and each item has two vectors: ``factors`` numbers for the elementwise product,
    ``deep_factors`` for the perceptron, whose three layers halve down to ``factors``.
    """

    def __init__(self, users: int, items: int, factors: int, deep_factors: int) -> None:
        super().__init__()
        self.user_product = nn.Embedding(users, factors)
        self.item_product = nn.Embedding(items, factors)
        self.user_deep = nn.Embedding(users, deep_factors)
        self.item_deep = nn.Embedding(items, deep_factors)
        self.deep = nn.Sequential(
            nn.Linear(2 * deep_factors, 4 * factors), nn.ReLU(),
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
    batch: Batch,
    num_users: int = 138493,
    num_items: int = 26744,
    num_factors: int = 64,
    deep_factors: int = 128,
) -> Parts:
    """Build NeuMF with the users and films of MovieLens-20M; a sample is a user-item pair."""
    return Parts(
        module=NeuMf(num_users, num_items, num_factors, deep_factors),
        args=(torch.randint(num_users, (batch.size,)), torch.randint(num_items, (batch.size,))),
        loss=BinaryLoss(torch.randint(2, (batch.size,)).float()),
    )


class HistoryAutoencoder(nn.Module):
    """Scores of all items from all that a user has chosen, through a narrow layer.

    Half of the choices are hidden in training.
    """

    def __init__(self, items: int, width: int, layers: int) -> None:
        super().__init__()
        widths = [items, *[width] * layers]
        self.noise = nn.Dropout(0.5)
        self.encoder = _tanh_layers(widths)
        self.decoder = _tanh_layers(widths[:0:-1])
        self.score = nn.Linear(width, items)

    def forward(self, chosen: Tensor) -> Tensor:
        """Score items: (B, items) of 0 and 1 to (B, items)."""
        scores: Tensor = self.score(self.decoder(self.encoder(self.noise(chosen))))
        return scores


def _tanh_layers(widths: list[int]) -> nn.Sequential:
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*(part for a, b in pairs for part in (nn.Linear(a, b), nn.Tanh())))


def recommender_autoencoder(
    batch: Batch, num_items: int = 20108, hidden_size: int = 200, num_layers: int = 1
) -> Parts:
    r"""Build an autoencoder over the films of MovieLens-20M; a sample is one user.

    :math:`2 I h + h + I` parameters for one hidden layer: 8,063,508 with the 20,108 films that
    are left when users of fewer than five choices are taken out, and 200 hidden units.
    Dense vectors go in and come out; a trainer that leaves out of a batch the items which none of
    its users chose does less work on small batches.
    """
    chosen = (torch.rand(batch.size, num_items) < 0.005).float()
    return Parts(
        module=HistoryAutoencoder(num_items, hidden_size, num_layers),
        args=(chosen,),
        loss=BinaryLoss(chosen),
    )
