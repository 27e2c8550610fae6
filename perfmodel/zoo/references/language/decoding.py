"""One more token of every sequence: the step that text generation repeats.

The keys and values of the tokens before are an input, as a server keeps them between two steps; the
new ones are appended to them, and both are what a step returns beside its scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.errors import InvalidInputError
from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.language.sizes import GPT2
from perfmodel.zoo.references.language.transformer_blocks import FeedForward
from perfmodel.zoo.references.reference import Batch, Parts

_POSITIONS = 1024
_VOCABULARY = 50257


class CachedAttention(nn.Module):
    """Attention of one new position over the cached ones and itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.joined = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Attend from x (B, 1, W) to keys and values (B, heads, S, W / heads); lengthen both."""
        query, key, value = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in self.joined(x).chunk(3, dim=2)
        )
        keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        mixed = functional.scaled_dot_product_attention(query, keys, values)
        return self.output(mixed.transpose(1, 2).flatten(2)), keys, values


class Layer(nn.Module):
    """Cached attention and feed-forward network, each after a norm and beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = CachedAttention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, 4 * width, nn.GELU())

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Transform x (B, 1, W)."""
        mixed, keys, values = self.attention(self.attention_norm(x), keys, values)
        x = x + mixed
        return x + self.feed_forward(self.feed_forward_norm(x)), keys, values


class Decoder(nn.Module):
    """A causal language model that scores one more token from what it cached of those before."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(_VOCABULARY, width)
        self.positions = nn.Embedding(_POSITIONS, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, token_ids: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        """Score the next token of (B, 1) int64 as (B, 1, V); then the cache, longer by one.

        Parameters
        ----------
        *cache : Tensor, shape (B, heads, S, W / heads)
            Keys and values of each layer in turn.
        """
        x = self.tokens(token_ids) + self.positions.weight[cache[0].shape[2]]
        longer: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, keys, values = layer(x, *cache[2 * number : 2 * number + 2])
            longer += [keys, values]
        return (functional.linear(self.norm(x), self.tokens.weight), *longer)


@dataclass(frozen=True)
class NewTokenLoss:
    """The loss of the scores alone, whatever else a step returns."""

    of_scores: TokenLoss

    def __call__(self, output: tuple[Tensor, ...]) -> Tensor:
        """Return the mean cross entropy of the new tokens."""
        return self.of_scores(output[0])


def gpt2_decode(batch: Batch, size: str = "small", num_layers: int | None = None) -> Parts:
    """Build a step of GPT-2 that writes one token after ``sequence_length`` cached ones (511)."""
    if size not in GPT2:
        raise InvalidInputError(
            f"size must be one of {', '.join(GPT2)}, got {size!r}.",
            pointer="/job/model_kwargs/size",
            allowed=list(GPT2),
        )
    layers, width, heads = GPT2[size]
    layers = min(layers, num_layers or layers)
    length = batch.tokens(_POSITIONS // 2 - 1, most=_POSITIONS - 1)
    cached = (batch.size, heads, length, width // heads)
    return Parts(
        module=Decoder(layers, width, heads),
        args=(
            torch.randint(_VOCABULARY, (batch.size, 1)),
            *(torch.randn(cached) for _ in range(2 * layers)),
        ),
        loss=NewTokenLoss(TokenLoss(torch.randint(_VOCABULARY, (batch.size, 1)))),
        tokens_per_sample=1,
    )
