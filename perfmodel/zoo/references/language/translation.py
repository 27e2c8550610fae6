"""Machine translation with the Transformer of "Attention is all you need"."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.language.transformer_blocks import PostNormLayer
from perfmodel.zoo.references.reference import Batch, Parts

_LONGEST = 1024
_DEFAULT_LENGTH = 64


class TranslationTransformer(nn.Module):
    """Encoder and decoder over one shared vocabulary whose table is also the output layer."""

    def __init__(self, layers: int, width: int, heads: int, inner: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        # Small, since the table is also the output layer: scores start near zero.
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        self.register_buffer("positions", sinusoids(_LONGEST, width), persistent=False)
        self.dropout = nn.Dropout(0.1)
        self.encoder = nn.ModuleList(
            PostNormLayer(width, heads, inner, nn.ReLU(), dropout=0.1) for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            PostNormLayer(
                width, heads, inner, nn.ReLU(), dropout=0.1, is_causal=True, reads_memory=True
            )
            for _ in range(layers)
        )

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Score the next target token at every position: two (B, S) int64 to (B, S, V)."""
        memory = self._embed(source_ids)
        for layer in self.encoder:
            memory = layer(memory)
        x = self._embed(target_ids)
        for layer in self.decoder:
            x = layer(x, memory)
        return functional.linear(x, self.tokens.weight)

    def _embed(self, token_ids: Tensor) -> Tensor:
        positions = self.get_buffer("positions")[: token_ids.shape[1]]
        scale = math.sqrt(self.tokens.embedding_dim)
        embedded: Tensor = self.dropout(self.tokens(token_ids) * scale + positions)
        return embedded


def sinusoids(positions: int, width: int) -> Tensor:
    r"""Return the position table of shape (positions, width).

    :math:`\\sin(p / 10000^{2 i / w})` in the first half of the columns, the cosine in the second.
    """
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angle = torch.arange(positions).unsqueeze(1) * frequency
    return torch.cat((angle.sin(), angle.cos()), dim=1)


def transformer_translation(
    batch: Batch,
    num_layers: int = 6,
    hidden_size: int = 512,
    num_heads: int = 8,
    ffn_size: int = 2048,
    vocab_size: int = 37000,
) -> Parts:
    """Build the base Transformer, with source and target sentences of equal length."""
    length = batch.tokens(_DEFAULT_LENGTH, most=_LONGEST)
    shape = (batch.size, length)
    return Parts(
        module=TranslationTransformer(num_layers, hidden_size, num_heads, ffn_size, vocab_size),
        args=(torch.randint(vocab_size, shape), torch.randint(vocab_size, shape)),
        loss=TokenLoss(torch.randint(vocab_size, shape)),
        tokens_per_sample=2 * length,
    )
