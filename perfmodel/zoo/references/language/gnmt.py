"""GNMT: machine translation with stacked LSTMs and additive attention.

The decoder's first LSTM runs over the whole target, then every target position attends to the
source at once, and what it read joins the input of each later layer: no step waits for the
attention of the one before, so that each layer is one recurrent operator.

References
----------
Wu et al., "Google's Neural Machine Translation System", 2016; layer sizes and the normalised
score of the second version of the public PyTorch recipe.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.reference import Batch, Parts

#: Words of an average pair in the WMT English-German corpus: 49 together.
_SOURCE_LENGTH = 24
_TARGET_LENGTH = 25


class Encoder(nn.Module):
    """A bidirectional LSTM, then ordinary ones, with residual connections from the third."""

    def __init__(self, layers: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.LSTM(width, width, bidirectional=True)
        self.second = nn.LSTM(2 * width, width)
        self.later = nn.ModuleList(nn.LSTM(width, width) for _ in range(layers - 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, embedded: Tensor) -> Tensor:
        """Read a sentence: (S, B, W) to (S, B, W)."""
        x: Tensor
        x, _ = self.first(self.dropout(embedded))
        x, _ = self.second(self.dropout(x))
        for lstm in self.later:
            read, _ = lstm(self.dropout(x))
            x = read + x
        return x


class AdditiveAttention(nn.Module):
    r"""Bahdanau's attention, with a normalised score vector.

    :math:`e_{ts} = g \\frac{v}{|v|} \\cdot \\tanh(W q_t + U k_s + b)`: every pair of positions
    has a vector as wide as the layer.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.score = nn.Parameter(torch.empty(width))
        nn.init.uniform_(self.score, -0.1, 0.1)
        self.scale = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Read for every query: (T, B, W) and (S, B, W) to (T, B, W)."""
        keys = keys.transpose(0, 1)
        query = self.query(queries.transpose(0, 1)).unsqueeze(2)
        joined = query + self.key(keys).unsqueeze(1) + self.bias
        score = self.score / self.score.norm() * self.scale
        weights = torch.tanh(joined).matmul(score).softmax(dim=-1)
        return torch.bmm(weights, keys).transpose(0, 1)


class Decoder(nn.Module):
    """LSTMs that each read the attention of the first one beside their input."""

    def __init__(self, layers: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.LSTM(width, width)
        self.attention = AdditiveAttention(width)
        self.second = nn.LSTM(2 * width, width)
        self.later = nn.ModuleList(nn.LSTM(2 * width, width) for _ in range(layers - 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, embedded: Tensor, memory: Tensor) -> Tensor:
        """Read target words and the encoder's output: (T, B, W) and (S, B, W) to (T, B, W)."""
        x: Tensor
        x, _ = self.first(self.dropout(embedded))
        attended = self.attention(x, memory)
        x, _ = self.second(self.dropout(torch.cat((x, attended), dim=2)))
        for lstm in self.later:
            read, _ = lstm(self.dropout(torch.cat((x, attended), dim=2)))
            x = read + x
        return x


class Gnmt(nn.Module):
    """Encoder, decoder and output layer; source and target share their word table."""

    def __init__(self, layers: int, width: int, vocabulary: int, dropout: float) -> None:
        super().__init__()
        if layers < 2:
            raise ValueError("num_layers must be at least 2: one of them is bidirectional")
        self.tokens = nn.Embedding(vocabulary, width)
        self.encoder = Encoder(layers, width, dropout)
        self.decoder = Decoder(layers, width, dropout)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Score the next target word: (B, S) and (B, T) int64 to (T, B, V)."""
        memory = self.encoder(self.tokens(source_ids.t()))
        read = self.decoder(self.tokens(target_ids.t()), memory)
        scores: Tensor = self.output(read)
        return scores


def gnmt(
    batch: Batch,
    num_layers: int = 4,
    hidden_size: int = 1024,
    vocab_size: int = 31794,
    dropout: float = 0.2,
) -> Parts:
    """Build GNMT for English to German, with its joint vocabulary of byte pairs.

    ``sequence_length`` sets source and target alike; the default is an average pair, 24 and 25
    words. Padding of the shorter sentences of a batch is left out.
    """
    source, target = batch.tokens(_SOURCE_LENGTH), batch.tokens(_TARGET_LENGTH)
    return Parts(
        module=Gnmt(num_layers, hidden_size, vocab_size, dropout),
        args=(
            torch.randint(vocab_size, (batch.size, source)),
            torch.randint(vocab_size, (batch.size, target)),
        ),
        loss=TokenLoss(torch.randint(vocab_size, (target, batch.size)), label_smoothing=0.1),
        tokens_per_sample=source + target,
    )
