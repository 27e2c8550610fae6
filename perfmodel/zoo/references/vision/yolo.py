"""YOLOv3: Darknet-53 and three maps of boxes, for 416x416 images.

Left out: the assignment of true boxes to cells, which the data loader does; the test that spares
boxes which nearly meet a true one; decoding and suppression of boxes after inference.

Reference: Redmon and Farhadi, YOLOv3: An Incremental Improvement, 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts

#: Residual blocks of each stage of Darknet-53; stages begin with a stride of two.
_DEPTHS = (1, 2, 8, 8, 4)
_ANCHORS = 3
_BOX = 4  # centre and size
#: Coarsest map: pixels along one side of a cell.
_STRIDES = (32, 16, 8)


def _unit(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(0.1, inplace=True),
    )


class DarknetBlock(nn.Module):
    """A 1x1 convolution to half the width and a 3x3 back, beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(_unit(width, width // 2, 1), _unit(width // 2, width, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform ``inputs`` (B, C, H, W)."""
        result: Tensor = inputs + self.branch(inputs)
        return result


def _stage(width: int, depth: int) -> nn.Sequential:
    blocks = (DarknetBlock(2 * width) for _ in range(depth))
    return nn.Sequential(_unit(width, 2 * width, 3, stride=2), *blocks)


def _neck(inputs: int, width: int) -> nn.Sequential:
    """Return five convolutions, 1x1 and 3x3 in turn."""
    return nn.Sequential(
        _unit(inputs, width, 1), _unit(width, 2 * width, 3),
        _unit(2 * width, width, 1), _unit(width, 2 * width, 3),
        _unit(2 * width, width, 1),
    )  # fmt: skip


class Yolo(nn.Module):
    """Darknet-53, and a head on each of its three last maps, the coarse ones fed to the fine."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.values = _BOX + 1 + classes
        self.stem = _unit(3, 32, 3)
        self.stages = nn.ModuleList(_stage(32 * 2**k, depth) for k, depth in enumerate(_DEPTHS))
        self.necks = nn.ModuleList((_neck(1024, 512), _neck(768, 256), _neck(384, 128)))
        self.lifts = nn.ModuleList((_unit(512, 256, 1), _unit(256, 128, 1)))
        self.heads = nn.ModuleList(
            nn.Sequential(_unit(w, 2 * w, 3), nn.Conv2d(2 * w, _ANCHORS * self.values, 1))
            for w in (512, 256, 128)
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map (B, 3, S, S) to three tensors (B, 3, G, G, 5 + classes), coarse to fine."""
        x = self.stem(images)
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        fine = [maps[3], maps[2]]
        found = []
        for level, (neck, head) in enumerate(zip(self.necks, self.heads, strict=True)):
            x = neck(x)
            found.append(self._by_anchor(head(x)))
            if level < len(fine):
                lifted = functional.interpolate(self.lifts[level](x), scale_factor=2.0)
                x = torch.cat((lifted, fine[level]), dim=1)
        return found

    def _by_anchor(self, head: Tensor) -> Tensor:
        batch, _, height, width = head.shape
        split = head.reshape(batch, _ANCHORS, self.values, height, width)
        return split.permute(0, 1, 3, 4, 2).contiguous()


@dataclass(frozen=True)
class YoloLoss:
    """Box, presence and class of every cell and anchor, from dense targets.

    Binary cross-entropy of the place in the cell, of presence and of each class; squared error of
    the size. Box and class count where there is a box; presence counts everywhere.

    Parameters
    ----------
    targets : sequence of torch.Tensor
        One for each map, shape (B, 3, G, G, 5 + classes): place in [0, 1], log size, presence
        (0 or 1), classes (0 or 1).
    """

    targets: Sequence[Tensor]

    def __call__(self, output: list[Tensor]) -> Tensor:
        """Return the loss by image, summed over maps, a scalar."""
        pairs = zip(output, self.targets, strict=True)
        return torch.stack([self._of_map(found, true) for found, true in pairs]).sum()

    @staticmethod
    def _of_map(found: Tensor, true: Tensor) -> Tensor:
        present = true[..., _BOX : _BOX + 1]
        surprise = functional.binary_cross_entropy_with_logits
        place = surprise(found[..., :2], true[..., :2], reduction="none")
        size = functional.mse_loss(found[..., 2:_BOX], true[..., 2:_BOX], reduction="none")
        presence = surprise(found[..., _BOX : _BOX + 1], present)
        label = surprise(found[..., _BOX + 1 :], true[..., _BOX + 1 :], reduction="none")
        boxes = (present * place).sum() + (present * size).sum() + (present * label).sum()
        return boxes / found.shape[0] + presence


def yolov3(batch: Batch, num_classes: int = 80, img_size: int = 416) -> Parts:
    """Build YOLOv3 for the classes of COCO; the side of an image is a multiple of 32 pixels."""
    if img_size % _STRIDES[0]:
        raise ValueError(f"img_size is {img_size}, but must be a multiple of {_STRIDES[0]}.")
    shapes = [
        (batch.size, _ANCHORS, img_size // s, img_size // s, _BOX + 1 + num_classes)
        for s in _STRIDES
    ]
    return Parts(
        module=Yolo(num_classes),
        args=(torch.randn(batch.size, 3, img_size, img_size),),
        loss=YoloLoss([(torch.rand(shape) < 0.02).float() for shape in shapes]),
    )
