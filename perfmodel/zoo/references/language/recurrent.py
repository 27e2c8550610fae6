"""Word-level language model with an LSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.reference import Batch, Parts

_DEFAULT_LENGTH = 35


class LstmLanguageModel(nn.Module):
    """Embedding, stacked LSTM and output layer, with dropout between them."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, width, layers, dropout=between, batch_first=True)
        self.output = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Score the next token at every position: (B, S) int64 to (B, S, V)."""
        hidden, _ = self.lstm(self.dropout(self.tokens(token_ids)))
        scores: Tensor = self.output(self.dropout(hidden))
        return scores


def lstm_lm(
    batch: Batch,
    vocab_size: int = 33278,
    hidden_size: int = 650,
    num_layers: int = 2,
    dropout: float = 0.5,
) -> Parts:
    """Build the medium LSTM of word-level modelling, with the vocabulary of WikiText-2."""
    length = batch.tokens(_DEFAULT_LENGTH)
    shape = (batch.size, length)
    return Parts(
        module=LstmLanguageModel(vocab_size, hidden_size, num_layers, dropout),
        args=(torch.randint(vocab_size, shape),),
        loss=TokenLoss(torch.randint(vocab_size, shape)),
        tokens_per_sample=length,
    )
