"""Residual networks as detectors take them: norms that nothing changes, a stem that nothing trains.

ResNet-50 and -101 with the stride on the first 1x1 convolution, as they were first published;
ResNeXt-101 of 32 groups of 8 with the stride on the 3x3. Stem and first stage are frozen. A frozen
norm is a scale and a shift where a gradient passes it, and one batch norm where none does.

Reference: facebookresearch/detectron2, ``modeling/backbone/resnet.py``, ``layers/batch_norm.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

_EPS = 1e-5
#: Channels of the four maps.
CHANNELS = (256, 512, 1024, 2048)


@dataclass(frozen=True, kw_only=True)
class Trunk:
    """Depths of the four stages and widths of their 3x3 convolutions.

    Parameters
    ----------
    width : int
        Channels of the 3x3 convolutions of the first stage; each stage doubles them.
    """

    depths: tuple[int, int, int, int]
    groups: int = 1
    width: int = 64


TRUNKS: Mapping[str, Trunk] = MappingProxyType(
    {
        "r50": Trunk(depths=(3, 4, 6, 3)),
        "r101": Trunk(depths=(3, 4, 23, 3)),
        "x101": Trunk(depths=(3, 4, 23, 3), groups=32, width=256),
    }
)


class FrozenBatchNorm2d(nn.Module):
    """A batch norm whose four vectors are buffers."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    var: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("mean", 0.0), ("var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x`` (B, C, H, W)."""
        if not x.requires_grad:
            return functional.batch_norm(
                x, self.mean, self.var, self.weight, self.bias, training=False, eps=_EPS
            )
        scale = self.weight * (self.var + _EPS).rsqrt()
        shift = self.bias - self.mean * scale
        return x * scale.reshape(1, -1, 1, 1).to(x.dtype) + shift.reshape(1, -1, 1, 1).to(x.dtype)


def _convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    padding = size // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=False),
        FrozenBatchNorm2d(outputs),
    )


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        first, second = (stride, 1) if groups == 1 else (1, stride)
        self.branch = nn.Sequential(
            _convolution(inputs, width, 1, first),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3, second, groups),
            nn.ReLU(inplace=True),
            _convolution(width, outputs, 1),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu_(self.branch(x) + self.shortcut(x))


class FrozenResNet(nn.Module):
    """Stem and four stages; the maps of all stages."""

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        self.stages = nn.ModuleList()
        inputs = 64
        for stage, (depth, outputs) in enumerate(zip(trunk.depths, CHANNELS, strict=True)):
            blocks = []
            for position in range(depth):
                stride = 2 if stage and not position else 1
                width = trunk.width * 2**stage
                blocks.append(_Bottleneck(inputs, width, outputs, stride, trunk.groups))
                inputs = outputs
            self.stages.append(nn.Sequential(*blocks))
        self.stem.requires_grad_(False)
        self.stages[0].requires_grad_(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map (B, 3, H, W) to four maps, of a quarter to a thirty-second of its sides."""
        x, maps = self.stem(images), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class FeaturePyramid(nn.Module):
    """Maps of one width: each is the map of its stage and, enlarged, the coarser ones.

    Parameters
    ----------
    first : int
        Stage of the finest map, from 0.
    """

    def __init__(self, trunk: Trunk, first: int, width: int = 256) -> None:
        super().__init__()
        self.trunk, self.first = FrozenResNet(trunk), first
        channels = CHANNELS[first:]
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.output = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in channels)

    def forward(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the maps, finest first, and that of the last stage as it was."""
        found = self.trunk(images)
        maps = [side(x) for side, x in zip(self.lateral, found[self.first :], strict=True)]
        for finer in reversed(range(len(maps) - 1)):
            enlarged = functional.interpolate(maps[finer + 1], scale_factor=2.0, mode="nearest")
            maps[finer] = maps[finer] + enlarged
        return [smooth(x) for smooth, x in zip(self.output, maps, strict=True)], found[-1]
