r"""Switch Transformer: an encoder and a decoder with a mixture of experts in every other layer.

A router sends each token to one expert. An expert takes at most its capacity,
:math:`C = \\lceil c S / E \\rceil` tokens of a sequence of S among E experts, so that every shape
is known beforehand; tokens beyond that pass by on the residual connection. Tokens go to their
places and back by a product with a mask of ones, as in the paper's own code.

References
----------
Fedus, Zoph, Shazeer, "Switch Transformers", 2021, with the layers of T5 (Raffel et al., 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.losses import TokenLoss
from perfmodel.zoo.references.reference import Batch, Parts

#: Lengths of T5's pre-training: a text of 512 tokens, and what was cut out of it.
_SOURCE_LENGTH = 512
_TARGET_LENGTH = 114
_CAPACITY_FACTOR = 1.25
_BUCKETS = 32
_FARTHEST = 128
#: Weight of the loss that keeps experts evenly used.
_BALANCE_WEIGHT = 0.01


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a Switch Transformer; encoder and decoder have ``layers`` layers each."""

    layers: int
    width: int
    heads: int
    inner: int
    experts: int
    vocabulary: int
    dropout: float = 0.1


class SimpleAttention(nn.Module):
    """Attention without biases and scale, whose scores get a learned term by distance."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.width, sizes.width, bias=False)
        self.key = nn.Linear(sizes.width, sizes.width, bias=False)
        self.value = nn.Linear(sizes.width, sizes.width, bias=False)
        self.output = nn.Linear(sizes.width, sizes.width, bias=False)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor, source: Tensor, bias: Tensor | None) -> Tensor:
        """Attend from x (B, S, W) to source (B, M, W), with a bias (1, heads, S, M)."""
        query, key = self._split(self.query(x)), self._split(self.key(source))
        scores = query @ key.transpose(2, 3)
        if bias is not None:
            scores = scores + bias
        weights = self.dropout(scores.softmax(dim=-1))
        mixed = weights @ self._split(self.value(source))
        merged: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return merged

    def _split(self, features: Tensor) -> Tensor:
        return features.view(*features.shape[:2], self.heads, -1).transpose(1, 2)


class DenseNetwork(nn.Module):
    """Feed-forward network of every other layer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.widen = nn.Linear(sizes.width, sizes.inner, bias=False)
        self.narrow = nn.Linear(sizes.inner, sizes.width, bias=False)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Transform x (B, S, W); there is nothing to balance."""
        return self.narrow(self.dropout(torch.relu(self.widen(x)))), None


class Experts(nn.Module):
    """A router and feed-forward networks, of which each token meets one."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.experts = sizes.experts
        self.router = nn.Linear(sizes.width, sizes.experts, bias=False)
        self.widen = nn.Parameter(torch.empty(sizes.experts, sizes.width, sizes.inner))
        self.narrow = nn.Parameter(torch.empty(sizes.experts, sizes.inner, sizes.width))
        nn.init.normal_(self.widen, std=sizes.width**-0.5)
        nn.init.normal_(self.narrow, std=sizes.inner**-0.5)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the experts' work on x (B, S, W), and how unevenly they were used."""
        chance = self.router(x).softmax(dim=-1)
        gate, chosen = chance.max(dim=-1)
        taken = functional.one_hot(chosen, self.experts).to(x.dtype)
        places = self._places(taken)
        gathered = torch.einsum("bsec,bsm->ebcm", places, x)
        inner = self.dropout(torch.relu(torch.bmm(gathered.flatten(1, 2), self.widen)))
        worked = torch.bmm(inner, self.narrow).view_as(gathered)
        back = torch.einsum("bsec,ebcm->bsm", places * gate[:, :, None, None], worked)
        used = (taken.mean(dim=(0, 1)) * chance.mean(dim=(0, 1))).sum() * self.experts
        return back, used

    def _places(self, taken: Tensor) -> Tensor:
        """Give each token a place with its expert: (B, S, E) to (B, S, E, C), ones and zeros."""
        capacity = math.ceil(_CAPACITY_FACTOR * taken.shape[1] / self.experts)
        number = (taken.cumsum(dim=1) * taken).long()
        # Number 0 is "not mine", and a token beyond the capacity is dropped.
        number = number.masked_fill(number > capacity, 0)
        return functional.one_hot(number, capacity + 1)[..., 1:].to(taken.dtype)


class Layer(nn.Module):
    """Self-attention, attention to the encoder where there is one, feed-forward network."""

    def __init__(self, sizes: Sizes, *, reads_memory: bool, is_sparse: bool) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(sizes.width)
        self.attention = SimpleAttention(sizes)
        if reads_memory:
            self.cross_norm = nn.RMSNorm(sizes.width)
            self.cross = SimpleAttention(sizes)
        self.network_norm = nn.RMSNorm(sizes.width)
        self.network: nn.Module = Experts(sizes) if is_sparse else DenseNetwork(sizes)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self, x: Tensor, bias: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Transform x (B, S, W); also return how unevenly experts were used, if any."""
        normed = self.attention_norm(x)
        x = x + self.dropout(self.attention(normed, normed, bias))
        if memory is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory, None))
        worked, used = self.network(self.network_norm(x))
        return x + self.dropout(worked), used


class Stack(nn.Module):
    """Layers of the encoder or the decoder; every second one holds experts."""

    def __init__(self, sizes: Sizes, *, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        self.distances = nn.Embedding(_BUCKETS, sizes.heads)
        self.layers = nn.ModuleList(
            Layer(sizes, reads_memory=is_decoder, is_sparse=layer % 2 == 1)
            for layer in range(sizes.layers)
        )
        self.norm = nn.RMSNorm(sizes.width)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """Transform x (B, S, W); also return how unevenly each layer used its experts."""
        x = self.dropout(x)
        bias = self._bias(x)
        uses: list[Tensor] = []
        for layer in self.layers:
            x, used = layer(x, bias, memory)
            uses += [] if used is None else [used]
        return self.dropout(self.norm(x)), uses

    def _bias(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        distance = places[None, :] - places[:, None]
        bias: Tensor = self.distances(_bucket(distance, not self.is_decoder))
        bias = bias.permute(2, 0, 1).unsqueeze(0)
        return bias.masked_fill(distance > 0, -torch.inf) if self.is_decoder else bias


class SwitchTransformer(nn.Module):
    """Encoder and decoder over one table, which is the output layer too."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.encoder = Stack(sizes, is_decoder=False)
        self.decoder = Stack(sizes, is_decoder=True)
        self.scale = sizes.width**-0.5

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Score the next token at every target position.

        Returns
        -------
        tuple of Tensor
            Scores (B, T, V), and how unevenly experts were used, a scalar of at least 1.
        """
        memory, uses = self.encoder(self.tokens(source_ids))
        x, further = self.decoder(self.tokens(target_ids), memory)
        scores = functional.linear(x * self.scale, self.tokens.weight)
        return scores, torch.stack(uses + further).mean()


@dataclass(frozen=True)
class BalancedLoss:
    """Cross-entropy of the scores, and a small weight on uneven use of experts.

    Parameters
    ----------
    target : torch.Tensor
        Token numbers, (B, T), int64.
    """

    target: torch.Tensor

    def __call__(self, output: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss, a scalar."""
        scores, used = output
        return TokenLoss(self.target)(scores) + _BALANCE_WEIGHT * used


def _bucket(distance: Tensor, is_two_sided: bool) -> Tensor:
    """Group distances: near ones each alone, farther ones in growing groups."""
    buckets = _BUCKETS // 2 if is_two_sided else _BUCKETS
    back = distance.abs() if is_two_sided else (-distance).clamp(min=0)
    near = buckets // 2
    growth = (back.clamp(min=1).float() / near).log() / math.log(_FARTHEST / near)
    far = (near + growth * (buckets - near)).long().clamp(max=buckets - 1)
    number = torch.where(back < near, back, far)
    return number + (distance > 0).long() * buckets if is_two_sided else number


def switch(
    batch: Batch,
    num_experts: int = 8,
    num_layers: int = 12,
    hidden_size: int = 768,
    num_heads: int = 12,
    ffn_size: int = 3072,
    vocab_size: int = 32128,
) -> Parts:
    """Build Switch-Base with eight experts; ``sequence_length`` sets source and target alike."""
    if num_layers < 2:
        raise ValueError("num_layers must be at least 2: the second layer holds the experts")
    source, target = batch.tokens(_SOURCE_LENGTH), batch.tokens(_TARGET_LENGTH)
    sizes = Sizes(
        layers=num_layers,
        width=hidden_size,
        heads=num_heads,
        inner=ffn_size,
        experts=num_experts,
        vocabulary=vocab_size,
    )
    return Parts(
        module=SwitchTransformer(sizes),
        args=(
            torch.randint(vocab_size, (batch.size, source)),
            torch.randint(vocab_size, (batch.size, target)),
        ),
        loss=BalancedLoss(torch.randint(vocab_size, (batch.size, target))),
        tokens_per_sample=source + target,
    )
