"""RetinaNet: every cell of five maps says what nine boxes hold, and where they are.

Two stacks of four convolutions, shared by all maps. The loss weighs sure answers down. Left out:
the match of true boxes to anchors and the suppression of overlapping boxes.

Reference: Lin et al., Focal Loss for Dense Object Detection, 2017; sizes of
facebookresearch/detectron2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts
from perfmodel.zoo.references.vision.frozen_residual import CHANNELS, TRUNKS, FeaturePyramid

_WIDTH = 256
_STRIDES = (8, 16, 32, 64, 128)
_ANCHORS = 9
_SURE = 2.0
_OBJECT_WEIGHT = 0.25


class RetinaNet(nn.Module):
    """Pyramid with two further maps, and the two stacks."""

    def __init__(self, trunk: str, classes: int) -> None:
        super().__init__()
        self.pyramid = FeaturePyramid(TRUNKS[trunk], first=1)
        self.sixth = nn.Conv2d(CHANNELS[-1], _WIDTH, 3, 2, 1)
        self.seventh = nn.Conv2d(_WIDTH, _WIDTH, 3, 2, 1)
        self.classes, self.boxes = _stack(_ANCHORS * classes), _stack(_ANCHORS * 4)
        self.class_count = classes

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, 3, H, W) to scores (B, A, classes) and shifts (B, A, 4)."""
        maps, last = self.pyramid(images)
        sixth = self.sixth(last)
        maps += [sixth, self.seventh(functional.relu(sixth))]
        scores = [_last(self.classes(x), self.class_count) for x in maps]
        shifts = [_last(self.boxes(x), 4) for x in maps]
        return torch.cat(scores, 1), torch.cat(shifts, 1)


def _stack(outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(_WIDTH, outputs, 3, padding=1))


def _last(x: Tensor, width: int) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, width)


@dataclass(frozen=True)
class FocalLoss:
    r"""Focal loss of all anchors and L1 of those with an object.

    :math:`\\sum \\alpha_t (1 - p_t)^2 \\, \\mathrm{BCE}(z, t) + \\sum_{pos} |s - t|`.

    Parameters
    ----------
    truth : torch.Tensor
        One-hot class of each anchor, shape (B, A, classes); nothing for background.
    has_object : torch.Tensor
        Shape (B, A, 1).
    shifts : torch.Tensor
        Shape (B, A, 4).
    """

    truth: Tensor
    has_object: Tensor
    shifts: Tensor

    def __call__(self, found: tuple[Tensor, Tensor]) -> Tensor:
        """Return the sum over anchors, a scalar."""
        scores, shifts = found
        surprise = functional.binary_cross_entropy_with_logits(scores, self.truth, reduction="none")
        sure = scores.sigmoid()
        right = sure * self.truth + (1 - sure) * (1 - self.truth)
        weight = _OBJECT_WEIGHT * self.truth + (1 - _OBJECT_WEIGHT) * (1 - self.truth)
        placed = (shifts - self.shifts).abs() * self.has_object
        return (weight * surprise * (1 - right) ** _SURE).sum() + placed.sum()


def retinanet(
    batch: Batch, trunk: str = "r50", num_classes: int = 80, height: int = 800, width: int = 1088
) -> Parts:
    """Build RetinaNet for the classes of COCO."""
    if trunk not in TRUNKS:
        raise ValueError(f"trunk {trunk!r} is not one of {', '.join(TRUNKS)}")
    if height % 32 or width % 32:
        raise ValueError("height and width have to be multiples of 32")
    cells = sum(-(-height // stride) * -(-width // stride) for stride in _STRIDES)
    anchors = _ANCHORS * cells
    return Parts(
        module=RetinaNet(trunk, num_classes),
        args=(torch.randn(batch.size, 3, height, width),),
        loss=FocalLoss(
            truth=(torch.rand(batch.size, anchors, num_classes) < 0.001).float(),
            has_object=(torch.rand(batch.size, anchors, 1) < 0.01).float(),
            shifts=torch.rand(batch.size, anchors, 4),
        ),
    )
