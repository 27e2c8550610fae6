"""Denoising networks of Stable Diffusion 1.5 and XL, which run once a step of sampling.

A sample is one latent with its 77 encoded words: 64 x 64 x 4 of an image of 512 x 512, of XL twice
as large along each side. Guidance without a classifier asks it twice an image, with and without the
words: two samples a step. XL is also told the size of the image and one vector of all words.

Left out: the encoder of words and the decoder of latents, which run once an image, and the
arithmetic of the sampler.

Reference: Rombach and others, High-Resolution Image Synthesis with Latent Diffusion Models, 2022;
Podell and others, SDXL: Improving Latent Diffusion Models, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts

_CHANNELS = 320
_LATENT = 4
_BLOCKS = 2
_WORDS = 77
_EMBEDDING = 4 * _CHANNELS
_GROUPS = 32
_LONGEST_PERIOD = 10_000.0


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What tells one denoising network from the other.

    Parameters
    ----------
    widths : tuple of int
        Channels of each level, the finest first.
    depths : tuple of int
        Layers of attention in each block of a level.
    middle_depth : int
        The same between the ways down and up.
    heads, head_width : int or None
        One of them is given.
    word_width : int
        Of an encoded word.
    told : int
        Numbers that the network is told of an image beside its words.
    """

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    middle_depth: int
    word_width: int
    heads: int | None = None
    head_width: int | None = None
    told: int = 0

    def heads_of(self, width: int) -> int:
        """Return the heads of attention over so many channels."""
        return self.heads or width // (self.head_width or width)


SD15 = Sizes(
    widths=(320, 640, 1280, 1280), depths=(1, 1, 1, 0), middle_depth=1, word_width=768, heads=8
)
#: Six numbers as 256 waves each, and a vector of all words.
SDXL = Sizes(
    widths=(320, 640, 1280),
    depths=(0, 2, 10),
    middle_depth=10,
    word_width=2048,
    head_width=64,
    told=6 * 256 + 1280,
)


class TimedBlock(nn.Module):
    """Two convolutions beside a shortcut; how noisy the latent is moves what is between them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(_GROUPS, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.noise = nn.Sequential(nn.SiLU(), nn.Linear(_EMBEDDING, outputs))
        self.second = nn.Sequential(
            nn.GroupNorm(_GROUPS, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        same = inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1)

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        """Transform ``inputs`` (B, C, H, W), given ``noise`` (B, 1280)."""
        moved = self.first(inputs) + self.noise(noise)[:, :, None, None]
        result: Tensor = self.second(moved) + self.shortcut(inputs)
        return result


class Attention(nn.Module):
    """Attention of the places of a latent to each other, or to words."""

    def __init__(self, width: int, other: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(other, width, bias=False)
        self.value = nn.Linear(other, width, bias=False)
        self.output = nn.Linear(width, width)

    def forward(self, inputs: Tensor, others: Tensor) -> Tensor:
        """Transform ``inputs`` (B, S, C), given ``others`` (B, T, C')."""
        query, key, value = (
            of(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for of, x in ((self.query, inputs), (self.key, others), (self.value, others))
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        result: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result


class GatedUnits(nn.Module):
    """Four times as wide inside, half of it gating the other half."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform ``inputs`` (B, S, C)."""
        values, gates = self.wide(inputs).chunk(2, dim=-1)
        result: Tensor = self.narrow(values * functional.gelu(gates))
        return result


class AttentionLayer(nn.Module):
    """Places attend to each other and to words; a network follows."""

    def __init__(self, width: int, sizes: Sizes) -> None:
        super().__init__()
        heads = sizes.heads_of(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself = Attention(width, width, heads)
        self.words = Attention(width, sizes.word_width, heads)
        self.units = GatedUnits(width)

    def forward(self, places: Tensor, words: Tensor) -> Tensor:
        """Transform ``places`` (B, S, C), given ``words`` (B, 77, C')."""
        normed = self.norms[0](places)
        places = places + self.itself(normed, normed)
        places = places + self.words(self.norms[1](places), words)
        result: Tensor = places + self.units(self.norms[2](places))
        return result


class SpatialTransformer(nn.Module):
    """Layers of attention over the places of a latent."""

    def __init__(self, width: int, depth: int, sizes: Sizes) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, width, eps=1e-6)
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.layers = nn.ModuleList(AttentionLayer(width, sizes) for _ in range(depth))

    def forward(self, inputs: Tensor, words: Tensor) -> Tensor:
        """Transform ``inputs`` (B, C, H, W), given ``words`` (B, 77, C')."""
        places = self.enter(self.norm(inputs)).flatten(2).transpose(1, 2)
        for layer in self.layers:
            places = layer(places, words)
        back = places.transpose(1, 2).unflatten(2, tuple(inputs.shape[2:]))
        result: Tensor = inputs + self.leave(back)
        return result


class Stage(nn.Module):
    """A timed block, attention where its level has it, and a change of resolution at its end."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        depth: int,
        sizes: Sizes,
        resized: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.block = TimedBlock(inputs, outputs)
        self.attention = SpatialTransformer(outputs, depth, sizes) if depth else None
        self.resized = resized

    def forward(self, inputs: Tensor, noise: Tensor, words: Tensor) -> Tensor:
        """Transform ``inputs`` (B, C, H, W)."""
        result: Tensor = self.block(inputs, noise)
        if self.attention is not None:
            result = self.attention(result, words)
        return result if self.resized is None else self.resized(result)


def _embedding(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, _EMBEDDING), nn.SiLU(), nn.Linear(_EMBEDDING, _EMBEDDING)
    )


def _upsampled(width: int) -> nn.Module:
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1))


class Denoiser(nn.Module):
    """A U of stages: each on the way up also reads what its like on the way down wrote."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.noise = _embedding(_CHANNELS)
        self.told = _embedding(sizes.told) if sizes.told else None
        self.enter = nn.Conv2d(_LATENT, _CHANNELS, 3, padding=1)
        written = [_CHANNELS]
        self.down = nn.ModuleList(self._way_down(sizes, written))
        coarse, depth = sizes.widths[-1], sizes.middle_depth
        self.middle = nn.ModuleList(
            [Stage(coarse, coarse, depth, sizes), Stage(coarse, coarse, 0, sizes)]
        )
        self.up = nn.ModuleList(self._way_up(sizes, written))
        self.leave = nn.Sequential(
            nn.GroupNorm(_GROUPS, _CHANNELS),
            nn.SiLU(),
            nn.Conv2d(_CHANNELS, _LATENT, 3, padding=1),
        )

    def _way_down(self, sizes: Sizes, written: list[int]) -> Iterator[nn.Module]:
        for level, width in enumerate(sizes.widths):
            for _ in range(_BLOCKS):
                yield Stage(written[-1], width, sizes.depths[level], sizes)
                written.append(width)
            if level < len(sizes.widths) - 1:
                yield nn.Conv2d(width, width, 3, stride=2, padding=1)
                written.append(width)

    def _way_up(self, sizes: Sizes, written: list[int]) -> Iterator[nn.Module]:
        inputs = sizes.widths[-1]
        for level, width in reversed(list(enumerate(sizes.widths))):
            for position in range(_BLOCKS + 1):
                resized = _upsampled(width) if level and position == _BLOCKS else None
                yield Stage(inputs + written.pop(), width, sizes.depths[level], sizes, resized)
                inputs = width

    def forward(
        self, latents: Tensor, times: Tensor, words: Tensor, told: Tensor | None = None
    ) -> Tensor:
        """Return the noise in ``latents`` (B, 4, H, W) at ``times`` (B,), given ``words``."""
        noise = self.noise(_waves(times).to(latents.dtype))
        if self.told is not None:
            noise = noise + self.told(told)
        result = self.enter(latents)
        written = [result]
        for one in self.down:
            result = one(result, noise, words) if isinstance(one, Stage) else one(result)
            written.append(result)
        for one in self.middle:
            result = one(result, noise, words)
        for one in self.up:
            result = one(torch.cat([result, written.pop()], dim=1), noise, words)
        found: Tensor = self.leave(result)
        return found


def _waves(times: Tensor) -> Tensor:
    """Return sines and cosines of times, shape (B, 320)."""
    half = _CHANNELS // 2
    periods = torch.arange(half, device=times.device) * (-math.log(_LONGEST_PERIOD) / half)
    angles = times[:, None] * torch.exp(periods)
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=1)


@dataclass(frozen=True)
class NoiseLoss:
    """Mean square of what is wrong with the noise that was found.

    Parameters
    ----------
    target : torch.Tensor
        The noise, shape (B, 4, H, W).
    """

    target: Tensor

    def __call__(self, output: Tensor) -> Tensor:
        """Return the loss, a scalar."""
        return functional.mse_loss(output, self.target.to(output.dtype))


def sd15_unet(batch: Batch, *, side: int = 512) -> Parts:
    """Build the denoising network of Stable Diffusion 1.5 with latents of square images.

    Parameters
    ----------
    side : int
        Pixels along one side of an image; a multiple of 64.
    """
    return _denoiser(SD15, batch, side)


def sdxl_unet(batch: Batch, *, side: int = 1024) -> Parts:
    """Build the denoising network of Stable Diffusion XL with latents of square images.

    Parameters
    ----------
    side : int
        Pixels along one side of an image; a multiple of 64.
    """
    return _denoiser(SDXL, batch, side)


def _denoiser(sizes: Sizes, batch: Batch, side: int) -> Parts:
    if side < 64 or side % 64:
        raise ValueError(f"side is a multiple of 64; got {side}")
    latents = torch.randn(batch.size, _LATENT, side // 8, side // 8)
    told = (torch.randn(batch.size, sizes.told),) if sizes.told else ()
    return Parts(
        module=Denoiser(sizes),
        args=(
            latents,
            torch.rand(batch.size),
            torch.randn(batch.size, _WORDS, sizes.word_width),
            *told,
        ),
        loss=NoiseLoss(target=torch.randn_like(latents)),
    )
