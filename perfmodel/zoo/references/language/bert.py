"""BERT for question answering: an encoder that marks the answer's first and last token."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfmodel.zoo.losses import SpanLoss
from perfmodel.zoo.references.language.transformer_blocks import PostNormLayer, position_numbers
from perfmodel.zoo.references.reference import Batch, Parts

#: The vocabulary of the published models, 30,522, rounded up to a multiple of eight for the
#: matrix units, as training recipes do.
_VOCABULARY = 30528
_POSITIONS = 512
_SQUAD_LENGTH = 384


class SpanBert(nn.Module):
    """BERT encoder with a span head.

    The pooler of the pretrained model belongs to the checkpoint, but no gradient reaches it.
    """

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(_POSITIONS, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(
            PostNormLayer(width, heads, 4 * width, nn.GELU(), dropout=0.1) for _ in range(layers)
        )
        self.pooler = nn.Linear(width, width)
        self.span = nn.Linear(width, 2)

    def forward(self, token_ids: Tensor, segment_ids: Tensor) -> Tensor:
        """Score every position as start and end: (B, S) int64 to (B, S, 2)."""
        x = self.tokens(token_ids) + self.segments(segment_ids)
        x = self.dropout(self.norm(x + self.positions(position_numbers(token_ids))))
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.span(x)
        return scores


def bert_base_squad(batch: Batch, vocab_size: int = _VOCABULARY) -> Parts:
    """Build BERT-Base (12 layers, 768 wide) at the 384 tokens of SQuAD fine-tuning."""
    return _squad(batch, SpanBert(12, 768, 12, vocab_size), vocab_size)


def bert_large_squad(batch: Batch, vocab_size: int = _VOCABULARY) -> Parts:
    """Build BERT-Large (24 layers, 1024 wide) at the 384 tokens of SQuAD fine-tuning."""
    return _squad(batch, SpanBert(24, 1024, 16, vocab_size), vocab_size)


def _squad(batch: Batch, module: nn.Module, vocabulary: int) -> Parts:
    length = batch.tokens(_SQUAD_LENGTH, most=_POSITIONS)
    shape = (batch.size, length)
    return Parts(
        module=module,
        args=(torch.randint(vocabulary, shape), torch.randint(2, shape)),
        loss=SpanLoss(torch.randint(length, (batch.size,)), torch.randint(length, (batch.size,))),
        tokens_per_sample=length,
    )
