"""Blocks of transformers: attention, feed-forward network, encoder and decoder layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Multi-head attention with one linear layer for each of query, key, value and output.

    Parameters
    ----------
    width : int
        Features of a position; a multiple of ``heads``.
    dropout : float
        On the attention weights, in [0, 1).
    is_causal : bool
        Whether a position sees earlier ones only.
    """

    def __init__(self, width: int, heads: int, *, dropout: float, is_causal: bool = False) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} does not divide into {heads} heads")
        self.heads = heads
        self.dropout = dropout
        self.is_causal = is_causal
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, inputs: Tensor, memory: Tensor | None = None) -> Tensor:
        """Attend from ``inputs`` (B, S, W) to ``memory`` (B, M, W), or to itself."""
        source = inputs if memory is None else memory
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(inputs)),
            self._split(self.key(source)),
            self._split(self.value(source)),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.is_causal,
        )
        merged: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return merged

    def _split(self, features: Tensor) -> Tensor:
        return features.view(*features.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Sequential):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, inner: int, activation: nn.Module) -> None:
        super().__init__(nn.Linear(width, inner), activation, nn.Linear(inner, width))


class PostNormLayer(nn.Module):
    r"""Encoder or decoder layer of the original form: :math:`x \\leftarrow \\mathrm{LN}(x + f(x))`.

    Parameters
    ----------
    width, heads, inner : int
        Features, heads and features inside the feed-forward network.
    dropout : float
        On attention weights and on each branch.
    is_causal : bool
        Masks the self-attention.
    reads_memory : bool
        Adds attention to an encoder's output: a decoder layer.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        activation: nn.Module,
        *,
        dropout: float,
        is_causal: bool = False,
        reads_memory: bool = False,
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout=dropout, is_causal=is_causal)
        self.attention_norm = nn.LayerNorm(width)
        if reads_memory:
            self.cross = Attention(width, heads, dropout=dropout)
            self.cross_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, inner, activation)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, memory: Tensor | None = None) -> Tensor:
        """Transform ``inputs`` (B, S, W)."""
        x = self.attention_norm(inputs + self.dropout(self.attention(inputs)))
        if memory is not None:
            x = self.cross_norm(x + self.dropout(self.cross(x, memory)))
        result: Tensor = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return result


def position_numbers(token_ids: Tensor) -> Tensor:
    """Return 0, 1, ..., S - 1 for token ids of shape (B, S)."""
    return torch.arange(token_ids.shape[1], device=token_ids.device)
