"""SSD300 on a ResNet-50: one pass finds the boxes of 81 classes in a 300x300 image.

The backbone is ResNet-50 cut after its fourth stage, whose stride is removed, so that the first
map of features is 38x38. Five pairs of convolutions shrink it to 1x1. Every cell of the six maps
has 4 or 6 default boxes (anchors): 8732 in all.

Left out: the match of true boxes to anchors, which the data loader does, and the suppression of
overlapping boxes after inference.

Reference: Liu et al., SSD: Single Shot MultiBox Detector, 2016; backbone and heads as in NVIDIA's
public PyTorch example.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts
from perfmodel.zoo.references.vision.residual import (
    bottleneck_block,
    convolution,
    image_stem,
    stages,
)

#: Channels of the six maps, width of the 1x1 convolution before each but the first, and default
#: boxes of one cell.
_CHANNELS = (1024, 512, 512, 256, 256, 256)
_SQUEEZED = (256, 256, 128, 128, 128)
_BOXES = (4, 6, 6, 6, 4, 4)
#: Cells along one side of each map for 300 pixels.
_CELLS = (38, 19, 10, 5, 3, 1)
ANCHORS = sum(cells**2 * boxes for cells, boxes in zip(_CELLS, _BOXES, strict=True))

_CENTRE_SCALE = 10.0  # inverse of the variances 0.1 and 0.2 of the original
_SIZE_SCALE = 5.0
_NEGATIVES_PER_POSITIVE = 3
#: About ten anchors of an image match a true box.
_POSITIVE_SHARE = 10 / ANCHORS


class Ssd(nn.Module):
    """Backbone, further maps, and two convolutions on each map: where a box is, and of what."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        body = stages(bottleneck_block, (3, 4, 6), 4, strides=(1, 2, 1))
        self.backbone = nn.Sequential(*image_stem(), body)
        self.further = nn.ModuleList(
            _shrink(_CHANNELS[k], _SQUEEZED[k], _CHANNELS[k + 1], halves=k < 3) for k in range(5)
        )
        pairs = tuple(zip(_CHANNELS, _BOXES, strict=True))
        self.place = nn.ModuleList(nn.Conv2d(c, 4 * b, 3, padding=1) for c, b in pairs)
        self.label = nn.ModuleList(nn.Conv2d(c, classes * b, 3, padding=1) for c, b in pairs)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, 3, 300, 300) to box offsets (B, 4, A) and class scores (B, classes, A)."""
        x = self.backbone(images)
        maps = [x]
        for block in self.further:
            x = block(x)
            maps.append(x)
        offsets = [_flat(head(m), 4) for head, m in zip(self.place, maps, strict=True)]
        scores = [_flat(head(m), self.classes) for head, m in zip(self.label, maps, strict=True)]
        return torch.cat(offsets, dim=2), torch.cat(scores, dim=2)


def _flat(heads: Tensor, width: int) -> Tensor:
    return heads.reshape(heads.shape[0], width, -1)


def _shrink(inputs: int, squeezed: int, outputs: int, *, halves: bool) -> nn.Sequential:
    """Return a 1x1 and a 3x3 convolution; the latter halves the map or drops its border."""
    last = nn.Conv2d(
        squeezed, outputs, 3, stride=2 if halves else 1, padding=1 if halves else 0, bias=False
    )
    return nn.Sequential(
        convolution(inputs, squeezed, size=1),
        nn.ReLU(inplace=True),
        nn.Sequential(last, nn.BatchNorm2d(outputs)),
        nn.ReLU(inplace=True),
    )


@dataclass(frozen=True)
class MultiBoxLoss:
    r"""Smooth L1 of matched boxes and cross-entropy of matched and hardest unmatched anchors.

    :math:`\\frac{1}{B} \\sum_b \\frac{1}{P_b} (\\sum_{a \\in pos} L_1(o_a - t_a) +
    \\sum_{a \\in pos \\cup hard} CE(z_a, c_a))` with P positives and the 3 P unmatched anchors of
    largest loss. They are found by their rank (a sort of the sort), so that no shape depends on
    values.

    Parameters
    ----------
    boxes : torch.Tensor
        True box of each anchor as centre and size, shape (B, 4, A).
    labels : torch.Tensor
        Its class, 0 for background, shape (B, A), int64.
    anchors : torch.Tensor
        Default boxes, shape (1, 4, A).
    """

    boxes: Tensor
    labels: Tensor
    anchors: Tensor

    def __call__(self, output: tuple[Tensor, Tensor]) -> Tensor:
        """Return the mean loss over images, a scalar."""
        offsets, scores = output
        positive = self.labels > 0
        count = positive.sum(dim=1)
        distance = functional.smooth_l1_loss(offsets, self.targets(), reduction="none").sum(dim=1)
        placed = (positive.to(distance.dtype) * distance).sum(dim=1)
        surprise = functional.cross_entropy(scores, self.labels, reduction="none")
        counted = positive | self._hard(surprise.detach(), positive, count)
        labelled = (surprise * counted.to(surprise.dtype)).sum(dim=1)
        return ((placed + labelled) * (count > 0) / count.clamp(min=1)).mean()

    def targets(self) -> Tensor:
        """Return true boxes relative to their anchors, shape (B, 4, A)."""
        centre, size = self.anchors[:, :2], self.anchors[:, 2:]
        shift = _CENTRE_SCALE * (self.boxes[:, :2] - centre) / size
        growth = _SIZE_SCALE * (self.boxes[:, 2:] / size).log()
        return torch.cat((shift, growth), dim=1)

    @staticmethod
    def _hard(surprise: Tensor, positive: Tensor, count: Tensor) -> Tensor:
        order = surprise.masked_fill(positive, 0.0).argsort(dim=1, descending=True)
        rank = order.argsort(dim=1)
        most = (_NEGATIVES_PER_POSITIVE * count).clamp(max=surprise.shape[1])
        return rank < most.unsqueeze(1)


def ssd300_resnet50(batch: Batch, num_classes: int = 81) -> Parts:
    """Build SSD300 with ResNet-50 for the 80 classes of COCO and background."""
    matched = torch.rand(batch.size, ANCHORS) < _POSITIVE_SHARE
    labels = torch.randint(1, num_classes, (batch.size, ANCHORS)) * matched
    return Parts(
        module=Ssd(num_classes),
        args=(torch.randn(batch.size, 3, 300, 300),),
        loss=MultiBoxLoss(
            boxes=torch.rand(batch.size, 4, ANCHORS) * 0.5 + 0.25,
            labels=labels,
            anchors=torch.rand(1, 4, ANCHORS) * 0.5 + 0.25,
        ),
    )
