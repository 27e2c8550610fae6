r"""Causal language models: MPT, GPT-2, GPT-3 and OPT by size, and GPT as Megatron sizes it.

All have :math:`12 l h^2 + 13 l h + (V + s) h + 2 h` parameters: layers of 12 h^2 weights and
13 h biases and norms, tables of V tokens and s positions, a last norm. They differ in sizes, in
whether queries, keys and values come from one product or from three, in activation and dropout.

Left out: the sparse attention pattern of every other GPT-3 layer.

References
----------
Brown et al., "Language Models are Few-Shot Learners", 2020, table 2.1; Zhang et al., "OPT: Open
Pre-trained Transformer Language Models", 2022, table 1; the configurations of MPT and GPT-2 as
published with their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.errors import InvalidInputError
from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.language.sizes import (
    GPT2,
    GPT3,
    MPT,
    OPT,
    OPT_OFFSET,
    Sizes,
)
from perfmodel.zoo.references.language.transformer_blocks import (
    Attention,
    FeedForward,
    position_numbers,
)
from perfmodel.zoo.references.reference import Batch, Parts


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes and kinds of the parts of a causal language model.

    Parameters
    ----------
    is_joined : bool
        Whether one product makes queries, keys and values.
    activation : callable
        Makes that of the feed-forward network.
    dropout : float
        On embeddings, attention weights and branches, in [0, 1).
    offset : int or None
        Positions of the table that no token takes; None adds nothing to a position.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int
    is_joined: bool = True
    activation: Callable[[], nn.Module] = nn.GELU
    dropout: float = 0.0
    offset: int | None = 0


class JoinedAttention(nn.Module):
    """Causal attention whose queries, keys and values come from one linear layer."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} does not divide into {heads} heads")
        self.heads = heads
        self.dropout = dropout
        self.joined = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x (B, S, W)."""
        parts = self.joined(x).chunk(3, dim=2)
        query, key, value = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2) for part in parts
        )
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, is_causal=True
        )
        merged: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return merged


class Layer(nn.Module):
    """Attention and feed-forward network, each after a norm and beside a residual connection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, heads, dropout = shape.width, shape.heads, shape.dropout
        self.attention_norm = nn.LayerNorm(width)
        self.attention: nn.Module = (
            JoinedAttention(width, heads, dropout)
            if shape.is_joined
            else Attention(width, heads, dropout=dropout, is_causal=True)
        )
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, 4 * width, shape.activation())
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Transform x (B, S, W)."""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        result: Tensor = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return result


class LanguageModel(nn.Module):
    """Tables, layers, a last norm and the token table once more as output layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.tokens.weight, std=0.02)  # also the output layer: small scores
        self.positions = nn.Embedding(shape.positions + (shape.offset or 0), shape.width)
        self.offset = shape.offset
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Score the next token at every position: (B, S) int64 to (B, S, V)."""
        x = self.dropout(self._embedded(token_ids))
        for layer in self.layers:
            x = layer(x)
        return functional.linear(self.norm(x), self.tokens.weight)

    def _embedded(self, token_ids: Tensor) -> Tensor:
        embedded: Tensor
        if self.offset is None:
            embedded = self.tokens(token_ids) + self.positions(position_numbers(token_ids))
        else:
            places = self.positions(position_numbers(token_ids) + self.offset)
            embedded = self.tokens(token_ids) + places
        return embedded


def mpt(
    batch: Batch,
    size: str = "125m",
    vocab_size: int = 50368,
    num_layers: int | None = None,
) -> Parts:
    """Build an MPT, whose position table is as long as the sequences it trains on.

    ``size`` is 125m, 350m, 760m, 1b, 3b, 7b, 13b, 30b or 70b; ``num_layers`` cuts it short.
    """
    length = batch.tokens(2048)
    layers, width, heads = _sizes(MPT, size, num_layers)
    shape = Shape(layers=layers, width=width, heads=heads, vocabulary=vocab_size, positions=length)
    return _parts(batch, shape, length)


def gpt2(
    batch: Batch,
    size: str = "small",
    vocab_size: int = 50257,
    num_layers: int | None = None,
) -> Parts:
    """Build a GPT-2 for up to 1024 tokens: small, medium, large or xl."""
    layers, width, heads = _sizes(GPT2, size, num_layers)
    shape = Shape(
        layers=layers, width=width, heads=heads, vocabulary=vocab_size, positions=1024, dropout=0.1
    )
    return _parts(batch, shape, batch.tokens(1024, most=1024))


def gpt3(
    batch: Batch,
    size: str = "xl",
    vocab_size: int = 50257,
    num_layers: int | None = None,
) -> Parts:
    """Build a GPT-3 for up to 2048 tokens: small, medium, large, xl, 2.7b, 6.7b, 13b or 175b."""
    layers, width, heads = _sizes(GPT3, size, num_layers)
    shape = Shape(
        layers=layers, width=width, heads=heads, vocabulary=vocab_size, positions=2048, dropout=0.1
    )
    return _parts(batch, shape, batch.tokens(2048, most=2048))


def opt(
    batch: Batch,
    size: str = "125m",
    vocab_size: int = 50272,
    num_layers: int | None = None,
) -> Parts:
    """Build an OPT for up to 2048 tokens: 125m, 1.3b, 2.7b, 6.7b, 13b, 30b or 66b.

    The 350m is left out: it alone norms after each branch and projects narrower tables.
    """
    layers, width, heads = _sizes(OPT, size, num_layers)
    shape = Shape(
        layers=layers,
        width=width,
        heads=heads,
        vocabulary=vocab_size,
        positions=2048,
        is_joined=False,
        activation=nn.ReLU,
        dropout=0.1,
        offset=OPT_OFFSET,
    )
    return _parts(batch, shape, batch.tokens(2048, most=2048))


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
    rounded up for tensor parallelism.
    """
    shape = Shape(
        layers=num_layers,
        width=hidden_size,
        heads=num_heads,
        vocabulary=vocab_size,
        positions=max_positions,
        is_joined=False,
        activation=partial(nn.GELU, approximate="tanh"),
        dropout=0.1,
        offset=None,
    )
    return _parts(batch, shape, batch.tokens(max_positions, most=max_positions))


def _sizes(known: Sizes, size: str, num_layers: int | None) -> tuple[int, int, int]:
    if size not in known:
        raise InvalidInputError(
            f"size must be one of {', '.join(known)}, got {size!r}.",
            pointer="/job/model_kwargs/size",
            allowed=list(known),
        )
    layers, width, heads = known[size]
    if num_layers is None:
        return layers, width, heads
    if not isinstance(num_layers, int) or not 1 <= num_layers <= layers:
        raise InvalidInputError(
            f"num_layers must be a whole number from 1 to {layers}, got {num_layers!r}.",
            pointer="/job/model_kwargs/num_layers",
        )
    return num_layers, width, heads


def _parts(batch: Batch, shape: Shape, length: int) -> Parts:
    extents = (batch.size, length)
    return Parts(
        module=LanguageModel(shape),
        args=(torch.randint(shape.vocabulary, extents),),
        loss=TokenLoss(torch.randint(shape.vocabulary, extents)),
        tokens_per_sample=length,
    )
