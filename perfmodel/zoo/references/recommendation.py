"""Who will like what: neural collaborative filtering, an autoencoder of histories, DLRM."""

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


#: Words of each column of Criteo's clicks of 24 days, 40 million at most: 187,767,399 in all.
_CRITEO_ROWS = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208,
    11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip
_CRITEO_NUMBERS = 13


class ClickModel(nn.Module):
    """Tables of words and a perceptron of numbers; all pairs of their vectors; a perceptron."""

    def __init__(self, rows: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in rows)
        self.numbers = _rectified([_CRITEO_NUMBERS, 512, 256, width])
        vectors = len(rows) + 1
        self.click = nn.Sequential(
            _rectified([width + vectors * (vectors - 1) // 2, 1024, 1024, 512, 256]),
            nn.Linear(256, 1),
        )
        lower = torch.tril_indices(vectors, vectors, offset=-1, device="cpu")
        self.pairs = (lower[0] * vectors + lower[1]).tolist()

    def forward(self, numbers: Tensor, words: Tensor) -> Tensor:
        """Score (B, 13) numbers and (B, 26) words: (B,)."""
        dense = self.numbers(numbers)
        columns = words.unbind(dim=1)
        found = [table(column) for table, column in zip(self.tables, columns, strict=True)]
        vectors = torch.stack([dense, *found], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        pairs = products[:, torch.tensor(self.pairs, device=products.device)]
        scores: Tensor = self.click(torch.cat((dense, pairs), dim=1)).squeeze(1)
        return scores


def _rectified(widths: list[int]) -> nn.Sequential:
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*(part for a, b in pairs for part in (nn.Linear(a, b), nn.ReLU())))


def dlrm(batch: Batch, embedding_size: int = 128) -> Parts:
    """Build DLRM of MLPerf with the columns of Criteo's clicks; a sample is a shown advertisement.

    Naumov and others, Deep Learning Recommendation Model, 2019. All tables lie on one device; most
    GPUs have no room for their 96 GB.
    """
    words = torch.stack([torch.randint(count, (batch.size,)) for count in _CRITEO_ROWS], dim=1)
    return Parts(
        module=ClickModel(_CRITEO_ROWS, embedding_size),
        args=(torch.rand(batch.size, _CRITEO_NUMBERS), words),
        loss=BinaryLoss(torch.randint(2, (batch.size,)).float()),
    )
