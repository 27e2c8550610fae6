"""GPT as Megatron sizes it: layers, width and heads as arguments."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.language.transformer_blocks import PreNormLayer, position_numbers
from perfmodel.zoo.references.reference import Batch, Parts


class Gpt(nn.Module):
    """Causal language model whose output layer is its token table."""

    def __init__(
        self, layers: int, width: int, heads: int, vocabulary: int, positions: int
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.tokens.weight, std=0.02)  # also the output layer: small scores
        self.positions = nn.Embedding(positions, width)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(PreNormLayer(width, heads, dropout=0.1) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Score the next token at every position: (B, S) int64 to (B, S, V)."""
        x = self.dropout(self.tokens(token_ids) + self.positions(position_numbers(token_ids)))
        for layer in self.layers:
            x = layer(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def megatron_gpt(
    batch: Batch,
    num_layers: int = 24,
    hidden_size: int = 1024,
    num_heads: int = 16,
    vocab_size: int = 51200,
    max_positions: int = 1024,
) -> Parts:
    r"""Build a GPT of :math:`12 l h^2 + 13 l h + (V + s) h + 2 h` parameters.

    The default, l = 24 and h = 1024, is the 355 million of GPT-2 medium with its vocabulary
    rounded up for tensor parallelism. One layer holds 12 h^2 weights and 13 h biases and norms.
    """
    length = batch.tokens(max_positions, most=max_positions)
    shape = (batch.size, length)
    return Parts(
        module=Gpt(num_layers, hidden_size, num_heads, vocab_size, max_positions),
        args=(torch.randint(vocab_size, shape),),
        loss=TokenLoss(torch.randint(vocab_size, shape)),
        tokens_per_sample=length,
    )
