"""Residual networks: ResNet-18 for small images and ResNet-50 v1.5."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from perfmodel.zoo.losses import ClassificationLoss
from perfmodel.zoo.references.reference import Batch, Parts


def convolution(inputs: int, outputs: int, *, size: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution of odd size without bias, and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class ResidualBlock(nn.Module):
    """A stack of convolutions beside a shortcut, which is projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity() if same else convolution(inputs, outputs, size=1, stride=stride)
        )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform ``inputs`` (B, C, H, W)."""
        result: Tensor = self.activation(self.branch(inputs) + self.shortcut(inputs))
        return result


def basic_block(inputs: int, width: int, stride: int) -> ResidualBlock:
    """Return two 3x3 convolutions, the first with the stride."""
    return ResidualBlock(
        inputs, width, stride,
        convolution(inputs, width, size=3, stride=stride),
        nn.ReLU(inplace=True),
        convolution(width, width, size=3),
    )  # fmt: skip


def bottleneck_block(inputs: int, width: int, stride: int) -> ResidualBlock:
    """Return 1x1, 3x3 and 1x1 convolutions; v1.5 puts the stride on the 3x3."""
    return ResidualBlock(
        inputs, 4 * width, stride,
        convolution(inputs, width, size=1),
        nn.ReLU(inplace=True),
        convolution(width, width, size=3, stride=stride),
        nn.ReLU(inplace=True),
        convolution(width, 4 * width, size=1),
    )  # fmt: skip


def stages(
    block: Callable[[int, int, int], ResidualBlock],
    depths: tuple[int, ...],
    expansion: int,
    strides: tuple[int, ...] = (1, 2, 2, 2),
) -> nn.Sequential:
    """Return stages of blocks that start at 64 channels and double from stage to stage.

    The first block of a stage has the stage's stride.
    """
    blocks: list[nn.Module] = []
    channels = 64
    for stage, (depth, first) in enumerate(zip(depths, strides, strict=False)):
        width = 64 * 2**stage
        for position in range(depth):
            stride = first if position == 0 else 1
            blocks.append(block(channels, width, stride))
            channels = width * expansion
    return nn.Sequential(*blocks)


def image_stem() -> tuple[nn.Module, ...]:
    """Return the 7x7 convolution and the pooling that quarter an image."""
    return (
        convolution(3, 64, size=7, stride=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


def resnet18_cifar(batch: Batch, num_classes: int = 10, img_size: int = 32) -> Parts:
    """Build ResNet-18 with a 3x3 stem and no pooling after it, for 32x32 images."""
    stem = (convolution(3, 64, size=3), nn.ReLU(inplace=True))
    body = stages(basic_block, (2, 2, 2, 2), 1)
    return _classifier(batch, stem, body, 512, num_classes, img_size)


def resnet50_v1_5(batch: Batch, num_classes: int = 1000, img_size: int = 224) -> Parts:
    """Build ResNet-50 v1.5, for 224x224 images."""
    stem = image_stem()
    body = stages(bottleneck_block, (3, 4, 6, 3), 4)
    return _classifier(batch, stem, body, 2048, num_classes, img_size)


def _classifier(
    batch: Batch,
    stem: tuple[nn.Module, ...],
    body: nn.Sequential,
    channels: int,
    classes: int,
    img_size: int,
) -> Parts:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    return Parts(
        module=nn.Sequential(*stem, body, *head),
        args=(torch.randn(batch.size, 3, img_size, img_size),),
        loss=ClassificationLoss(torch.randint(classes, (batch.size,))),
    )
