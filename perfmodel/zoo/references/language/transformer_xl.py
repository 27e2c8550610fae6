"""Transformer-XL: a language model whose attention reaches into the segment before.

Attention scores are the sum of a product with the keys and one with relative positions, made
outside of any fused kernel: two batched products, a shift and an addition over the whole score
matrix. The layer inputs of a segment are kept as the memory of the next.

References
----------
Dai et al., "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context", 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.language.transformer_blocks import FeedForward
from perfmodel.zoo.references.reference import Batch, Parts


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a Transformer-XL.

    Parameters
    ----------
    layers, width, heads, inner : int
        Layers, features of a position, attention heads, features in the feed-forward network.
    dropout, attention_dropout : float
        On each branch, and on the attention weights; in [0, 1).
    """

    layers: int
    width: int
    heads: int
    inner: int
    dropout: float
    attention_dropout: float = 0.0


class RelativeAttention(nn.Module):
    """Causal attention over memory and segment with relative positions."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        if sizes.width % sizes.heads:
            raise ValueError(f"a width of {sizes.width} does not divide into {sizes.heads} heads")
        width = sizes.width
        self.heads = sizes.heads
        self.joined = nn.Linear(width, 3 * width, bias=False)
        self.position = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.dropout = nn.Dropout(sizes.attention_dropout)

    def forward(self, x: Tensor, memory: Tensor, distances: Tensor, biases: Tensor) -> Tensor:
        """Attend from x (S, B, W) to memory (M, B, W) and x.

        Parameters
        ----------
        distances : Tensor
            Encoded distances, (M + S, W).
        biases : Tensor
            Added to the queries of contents and of positions, (2, heads, W / heads).
        """
        length = x.shape[0]
        joined = self.joined(torch.cat((memory, x)))
        query, key, value = (self._split(part) for part in joined.chunk(3, dim=-1))
        query = query[-length:]
        position = self._split(self.position(distances))
        contents = torch.einsum("ibnd,jbnd->bnij", query + biases[0], key)
        places = torch.einsum("ibnd,jnd->bnij", query + biases[1], position)
        scores = (contents + _shifted(places)) * query.shape[-1] ** -0.5
        later = _later(length, key.shape[0], x.device)
        weights = self.dropout(scores.masked_fill(later, -math.inf).softmax(dim=-1))
        mixed = torch.einsum("bnij,jbnd->ibnd", weights, value)
        merged: Tensor = self.output(mixed.flatten(2))
        return merged

    def _split(self, features: Tensor) -> Tensor:
        return features.view(*features.shape[:-1], self.heads, -1)


class Layer(nn.Module):
    """Relative attention and a feed-forward network, each normalised after its sum."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention = RelativeAttention(sizes)
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.feed_forward = FeedForward(sizes.width, sizes.inner, nn.ReLU())
        self.feed_forward_norm = nn.LayerNorm(sizes.width)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor, memory: Tensor, distances: Tensor, biases: Tensor) -> Tensor:
        """Transform x (S, B, W); the rest as of the attention."""
        x = self.attention_norm(x + self.dropout(self.attention(x, memory, distances, biases)))
        result: Tensor = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return result


class TransformerXl(nn.Module):
    """Word table, layers and a full softmax over the same table."""

    def __init__(self, sizes: Sizes, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, sizes.width)
        nn.init.normal_(self.tokens.weight, std=0.02)  # also the output layer: small scores
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))
        self.biases = nn.Parameter(torch.zeros(2, sizes.heads, sizes.width // sizes.heads))
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, token_ids: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Score the next word and make the memory of the next segment.

        Parameters
        ----------
        token_ids : Tensor
            (B, S) int64.
        memory : Tensor
            Inputs of every layer and the last output in the segment before, (B, L + 1, M, W).

        Returns
        -------
        tuple of Tensor
            Scores (S, B, V), and the new memory (L + 1, M, B, W).
        """
        memory = memory.permute(1, 2, 0, 3)
        x = self.tokens(token_ids.t()) * math.sqrt(self.tokens.embedding_dim)
        distances = self.dropout(_distances(memory.shape[1] + x.shape[0], x))
        x = self.dropout(x)
        inputs = [x]
        for layer, remembered in zip(self.layers, memory, strict=False):
            x = layer(x, remembered, distances, self.biases)
            inputs.append(x)
        scores = functional.linear(self.dropout(x), self.tokens.weight, self.output_bias)
        with torch.no_grad():
            extended = torch.cat((memory, torch.stack(inputs)), dim=1)
        return scores, extended[:, -memory.shape[1] :].detach()


@dataclass(frozen=True)
class SegmentLoss:
    """Cross-entropy of the scores; the memory beside them is not trained.

    Parameters
    ----------
    target : torch.Tensor
        Word numbers, shape (S, B), int64.
    """

    target: torch.Tensor

    def __call__(self, output: tuple[Tensor, Tensor]) -> Tensor:
        """Return the mean loss over positions, from (scores, memory)."""
        return TokenLoss(self.target)(output[0])


def _shifted(places: Tensor) -> Tensor:
    """Turn scores by distance into scores by key: row i moves left by S - 1 - i places."""
    batch, heads, queries, keys = places.shape
    padded = torch.cat((places.new_zeros(batch, heads, queries, 1), places), dim=3)
    return padded.view(batch, heads, keys + 1, queries)[:, :, 1:].reshape(places.shape)


def _later(queries: int, keys: int, device: torch.device) -> Tensor:
    every = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return every.triu(keys - queries + 1)


def _distances(length: int, like: Tensor) -> Tensor:
    """Encode the distances length - 1, ..., 0 by sines and cosines: (length, W)."""
    width = like.shape[-1]
    steps = torch.arange(0, width, 2, device=like.device, dtype=like.dtype)
    back = torch.arange(length - 1, -1, -1, device=like.device, dtype=like.dtype)
    angle = torch.outer(back, torch.exp(steps * (-math.log(10000.0) / width)))
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


def transformer_xl_base(
    batch: Batch,
    num_layers: int = 16,
    vocab_size: int = 267735,
    memory_length: int | None = None,
) -> Parts:
    """Build the base model for WikiText-103: 512 wide, segments and memory of 192 words.

    The memory is as long as the segment where ``memory_length`` does not say otherwise.
    """
    sizes = Sizes(layers=num_layers, width=512, heads=8, inner=2048, dropout=0.1)
    return _parts(batch, sizes, vocab_size, 192, memory_length)


def transformer_xl_large(
    batch: Batch,
    num_layers: int = 18,
    vocab_size: int = 267735,
    memory_length: int | None = None,
) -> Parts:
    """Build the large model for WikiText-103: 1024 wide, segments and memory of 256 words."""
    sizes = Sizes(
        layers=num_layers, width=1024, heads=16, inner=4096, dropout=0.2, attention_dropout=0.2
    )
    return _parts(batch, sizes, vocab_size, 256, memory_length)


def _parts(
    batch: Batch, sizes: Sizes, vocabulary: int, default: int, memory_length: int | None
) -> Parts:
    length = batch.tokens(default)
    shape = (batch.size, length)
    remembered = length if memory_length is None else memory_length
    memory = torch.zeros(batch.size, sizes.layers + 1, remembered, sizes.width)
    return Parts(
        module=TransformerXl(sizes, vocabulary),
        args=(torch.randint(vocabulary, shape), memory),
        loss=SegmentLoss(torch.randint(vocabulary, shape[::-1])),
        tokens_per_sample=length,
    )
