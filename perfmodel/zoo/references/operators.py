"""Operators alone: what a model is made of, one call a step.

Their times say what a whole model hides, and their shapes can be chosen where models have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.errors import InvalidInputError
from perfmodel.zoo.references.reference import Batch, Parts

#: Point-wise operators by name.
POINTWISE: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "add": lambda x: x + x,
        "gelu": functional.gelu,
        "relu": functional.relu,
        "sigmoid": torch.sigmoid,
        "softmax": lambda x: functional.softmax(x, dim=-1),
        "tanh": torch.tanh,
    }
)


class Attention(nn.Module):
    """Attention by queries, keys and values that are there already."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend (B, heads, S, D)."""
        return functional.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)


class Pointwise(nn.Module):
    """One of :data:`POINTWISE`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind not in POINTWISE:
            raise InvalidInputError(
                f"kind must be one of {', '.join(POINTWISE)}, got {kind!r}.",
                pointer="/job/model_kwargs/kind",
                allowed=list(POINTWISE),
            )
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """Change each element, or each row where the kind normalises."""
        return POINTWISE[self.kind](x)


def linear(batch: Batch, rows: int = 1, in_features: int = 1024, out_features: int = 1024) -> Parts:
    """Build a product of (batch x ``rows``, in) with (in, out), and a bias."""
    return _parts(nn.Linear(in_features, out_features), torch.randn(batch.size, rows, in_features))


def convolution(
    batch: Batch,
    channels: int = 64,
    out_channels: int = 64,
    kernel_size: int = 3,
    stride: int = 1,
    groups: int = 1,
    img_size: int = 56,
) -> Parts:
    """Build a convolution of square images without bias, padded by half its kernel."""
    module = nn.Conv2d(
        channels, out_channels, kernel_size, stride, kernel_size // 2, groups=groups, bias=False
    )
    return _parts(module, torch.randn(batch.size, channels, img_size, img_size))


def attention(batch: Batch, heads: int = 12, head_size: int = 64, is_causal: bool = False) -> Parts:
    """Build attention over ``sequence_length`` positions (512)."""
    length = batch.tokens(512)
    inputs = [torch.randn(batch.size, heads, length, head_size) for _ in range(3)]
    return _parts(Attention(is_causal), *inputs, tokens=length)


def layer_norm(batch: Batch, width: int = 768) -> Parts:
    """Build a norm over the last of (batch, ``sequence_length`` (512), width)."""
    length = batch.tokens(512)
    return _parts(nn.LayerNorm(width), torch.randn(batch.size, length, width), tokens=length)


def batch_norm(batch: Batch, channels: int = 64, img_size: int = 56) -> Parts:
    """Build a norm over all but the channels of images."""
    return _parts(nn.BatchNorm2d(channels), torch.randn(batch.size, channels, img_size, img_size))


def max_pool(batch: Batch, channels: int = 64, img_size: int = 56, kernel_size: int = 3) -> Parts:
    """Build pooling with stride 2."""
    module = nn.MaxPool2d(kernel_size, 2, kernel_size // 2)
    return _parts(module, torch.randn(batch.size, channels, img_size, img_size))


def embedding(batch: Batch, entries: int = 50_000, width: int = 768) -> Parts:
    """Build a look-up of ``sequence_length`` (512) rows of a table."""
    length = batch.tokens(512)
    ids = torch.randint(entries, (batch.size, length))
    return _parts(nn.Embedding(entries, width), ids, tokens=length)


def pointwise(batch: Batch, kind: str = "gelu", elements: int = 1 << 20) -> Parts:
    """Build one operator on ``elements`` numbers a sample; ``kind`` is of :data:`POINTWISE`."""
    return _parts(Pointwise(kind), torch.randn(batch.size, elements))


def _parts(module: nn.Module, *inputs: Tensor, tokens: int | None = None) -> Parts:
    return Parts(module=module, args=inputs, loss=torch.sum, tokens_per_sample=tokens)
