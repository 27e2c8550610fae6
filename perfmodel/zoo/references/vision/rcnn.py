"""Faster, Mask and Keypoint R-CNN over a feature pyramid: boxes are proposed, then looked at.

A convolution over five maps scores three anchors a cell; the best thousand become proposals, each
is sampled from one map as 7x7 cells and read by two layers. In training 512 proposals an image are
read and 128 of them get masks or key points; in inference all thousand, and 100 boxes.

So that no shape depends on values, all levels get an equal part of the proposals, every image is of
one size and full of objects. Left out: the suppression of overlapping boxes, the match of true
boxes to anchors and proposals, and what becomes of masks after the network. A box is sampled at two
points along each side of a cell.

Reference: Ren et al., Faster R-CNN, 2015; Lin et al., Feature Pyramid Networks, 2017; He et al.,
Mask R-CNN, 2017; sizes of facebookresearch/detectron2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts
from perfmodel.zoo.references.vision.frozen_residual import TRUNKS, FeaturePyramid

_WIDTH = 256
_STRIDES = (4, 8, 16, 32, 64)
_ANCHORS = 3
#: Best anchors of a map that are decoded, in training and inference, and proposals of an image.
_DECODED = (2000, 1000)
_PROPOSALS = 1000
#: Proposals of an image that the heads read in training, and boxes of it that get masks; boxes of
#: an image that get masks in inference.
_SAMPLED, _FOREGROUND, _DETECTIONS = 512, 128, 100
#: Anchors of an image that count in the loss.
_COUNTED = 256
_HIDDEN = 1024
_BOX_CELLS, _MASK_CELLS = 7, 14
_KEY_POINTS = 17


class Found(NamedTuple):
    """What a detector returns; the last is None without masks and key points."""

    objectness: Tensor
    shifts: Tensor
    classes: Tensor
    boxes: Tensor
    maps: Tensor | None


class ProposalNetwork(nn.Module):
    """Scores and shifts of all anchors, and the best of them as boxes."""

    anchors: Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1)
        self.objectness = nn.Conv2d(_WIDTH, _ANCHORS, 1)
        self.shift = nn.Conv2d(_WIDTH, 4 * _ANCHORS, 1)
        cells = anchor_cells(height, width)
        self.cells = [_ANCHORS * count for count in cells]
        self.register_buffer("anchors", torch.rand(sum(self.cells), 4))

    def forward(self, maps: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores (B, A), shifts (B, A, 4) and proposals (B, 1000, 4)."""
        read = [functional.relu_(self.convolution(x)) for x in maps]
        scores = [self.objectness(x).permute(0, 2, 3, 1).flatten(1) for x in read]
        shifts = [_last(self.shift(x), 4) for x in read]
        with torch.no_grad():
            proposals = self._proposals([s.detach() for s in scores], [s.detach() for s in shifts])
        return torch.cat(scores, 1), torch.cat(shifts, 1), proposals

    def _proposals(self, scores: list[Tensor], shifts: list[Tensor]) -> Tensor:
        most = _DECODED[0] if self.training else _DECODED[1]
        best, boxes = [], []
        levels = torch.split(self.anchors, self.cells)
        for anchors, score, shift in zip(levels, scores, shifts, strict=True):
            found, place = score.topk(min(most, score.shape[1]), dim=1)
            where = place.unsqueeze(-1).expand(-1, -1, 4)
            best.append(found)
            boxes.append(decoded(anchors[place], shift.gather(1, where)))
        place = torch.cat(best, 1).topk(_PROPOSALS, dim=1).indices
        return torch.cat(boxes, 1).gather(1, place.unsqueeze(-1).expand(-1, -1, 4))


def anchor_cells(height: int, width: int) -> list[int]:
    """Return the cells of the five maps of an image whose sides are multiples of 32."""
    return [math.ceil(height / stride) * math.ceil(width / stride) for stride in _STRIDES]


def decoded(anchors: Tensor, shifts: Tensor) -> Tensor:
    """Move and stretch boxes (..., 4) given as centre and size."""
    centre = anchors[..., :2] + shifts[..., :2] * anchors[..., 2:]
    return torch.cat((centre, anchors[..., 2:] * shifts[..., 2:].exp()), dim=-1)


def _last(x: Tensor, width: int) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, width)


def cut(maps: list[Tensor], boxes: Tensor, cells: int) -> Tensor:
    """Sample boxes (B, R, 4) from four maps, a quarter of them each: (B R, C, cells, cells)."""
    steps = torch.linspace(-1.0, 1.0, 2 * cells, device=boxes.device)
    found = [
        _sampled(x, part, steps)
        for x, part in zip(maps, boxes.tensor_split(len(maps), dim=1), strict=True)
    ]
    return torch.cat(found, dim=1).flatten(0, 1)


def _sampled(x: Tensor, boxes: Tensor, steps: Tensor) -> Tensor:
    """Return (B, R, C, cells, cells); two points of each side are averaged to a cell."""
    batch, count, side = boxes.shape[0], boxes.shape[1], len(steps)
    across = boxes[..., 0:1] + boxes[..., 2:3] * steps
    down = boxes[..., 1:2] + boxes[..., 3:4] * steps
    grid = torch.stack(
        (
            across.unsqueeze(2).expand(-1, -1, side, -1),
            down.unsqueeze(3).expand(-1, -1, -1, side),
        ),
        dim=-1,
    )
    points = functional.grid_sample(
        x, grid.reshape(batch, count * side, side, 2).to(x.dtype), align_corners=False
    )
    cells = functional.avg_pool2d(points, 2)
    return cells.reshape(batch, x.shape[1], count, side // 2, side // 2).transpose(1, 2)


def _mask_head(classes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1), nn.ReLU(inplace=True)]
    layers += [nn.ConvTranspose2d(_WIDTH, _WIDTH, 2, 2), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(_WIDTH, classes, 1))


def _key_point_head() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (_WIDTH, *[512] * 7):
        layers += [nn.Conv2d(inputs, 512, 3, padding=1), nn.ReLU(inplace=True)]
    return nn.Sequential(
        *layers,
        nn.ConvTranspose2d(512, _KEY_POINTS, 4, 2, padding=1),
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
    )


class RCNN(nn.Module):
    """Pyramid, proposals, and heads that read them."""

    def __init__(
        self, trunk: str, classes: int, height: int, width: int, head: nn.Module | None
    ) -> None:
        super().__init__()
        self.pyramid = FeaturePyramid(TRUNKS[trunk], first=0)
        self.proposals = ProposalNetwork(height, width)
        self.box_head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(_WIDTH * _BOX_CELLS**2, _HIDDEN),
            nn.ReLU(inplace=True),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.ReLU(inplace=True),
        )
        self.classes = nn.Linear(_HIDDEN, classes + 1)
        self.boxes = nn.Linear(_HIDDEN, 4 * classes)
        self.map_head = head

    def forward(self, images: Tensor) -> Found:
        """Map (B, 3, H, W) to scores and boxes of anchors and of what was read of them."""
        maps, _ = self.pyramid(images)
        coarsest = functional.max_pool2d(maps[-1], 1, 2)
        objectness, shifts, proposals = self.proposals([*maps, coarsest])
        read = proposals[:, :_SAMPLED] if self.training else proposals
        hidden = self.box_head(cut(maps, read, _BOX_CELLS))
        classes, boxes = self.classes(hidden), self.boxes(hidden)
        if self.map_head is None:
            return Found(objectness, shifts, classes, boxes, None)
        kept = read[:, :_FOREGROUND] if self.training else self._best(read, classes)
        found = self.map_head(cut(maps, kept, _MASK_CELLS))
        return Found(objectness, shifts, classes, boxes, found)

    @staticmethod
    def _best(boxes: Tensor, classes: Tensor) -> Tensor:
        sure = classes.softmax(dim=-1).amax(dim=-1).reshape(boxes.shape[:2])
        place = sure.topk(_DETECTIONS, dim=1).indices
        return boxes.gather(1, place.unsqueeze(-1).expand(-1, -1, 4))


@dataclass(frozen=True)
class DetectionLoss:
    """Cross-entropy and L1 of counted anchors, of read proposals, and of their maps.

    Parameters
    ----------
    anchors : torch.Tensor
        Those that count, shape (B, 256), int64.
    labels : torch.Tensor
        Class of each proposal that is read, shape (B 512,), int64.
    box_columns : torch.Tensor
        Columns of the boxes of these classes, shape (B 512, 4), int64.
    maps : torch.Tensor or None
        True masks (B 128, cells, cells), or true cells of key points (B 128 17), int64.
    """

    anchors: Tensor
    is_object: Tensor
    shifts: Tensor
    labels: Tensor
    box_columns: Tensor
    boxes: Tensor
    maps: Tensor | None

    def __call__(self, found: Found) -> Tensor:
        """Return the sum of all losses, a scalar."""
        score = found.objectness.gather(1, self.anchors)
        shift = found.shifts.gather(1, self.anchors.unsqueeze(-1).expand(-1, -1, 4))
        loss = functional.binary_cross_entropy_with_logits(score, self.is_object)
        loss = loss + functional.l1_loss(shift, self.shifts)
        loss = loss + functional.cross_entropy(found.classes, self.labels)
        loss = loss + functional.l1_loss(found.boxes.gather(1, self.box_columns), self.boxes)
        return loss if found.maps is None else loss + self._of_maps(found.maps)

    def _of_maps(self, maps: Tensor) -> Tensor:
        assert self.maps is not None
        if self.maps.dim() == 1:
            return functional.cross_entropy(maps.flatten(0, 1).flatten(1), self.maps)
        classes = self.labels.reshape(-1, _SAMPLED)[:, :_FOREGROUND].reshape(-1, 1, 1, 1)
        where = (classes % maps.shape[1]).expand(-1, 1, *maps.shape[2:])
        own = maps.gather(1, where).squeeze(1)
        return functional.binary_cross_entropy_with_logits(own, self.maps)


def _parts(
    batch: Batch, trunk: str, classes: int, side: tuple[int, int], head: nn.Module | None
) -> Parts:
    if trunk not in TRUNKS:
        raise ValueError(f"trunk {trunk!r} is not one of {', '.join(TRUNKS)}")
    height, width = side
    if height % 32 or width % 32:
        raise ValueError("height and width have to be multiples of 32")
    read, kept = batch.size * _SAMPLED, batch.size * _FOREGROUND
    labels = torch.randint(classes + 1, (read,))
    columns = (labels % classes).unsqueeze(1) * 4 + torch.arange(4)
    anchors = _ANCHORS * sum(anchor_cells(height, width))
    maps = None
    if isinstance(head, nn.Sequential):
        cells = 2 * _MASK_CELLS
        is_mask = isinstance(head[-1], nn.Conv2d)
        maps = (
            torch.rand(kept, cells, cells)
            if is_mask
            else torch.randint((2 * cells) ** 2, (kept * _KEY_POINTS,))
        )
    return Parts(
        module=RCNN(trunk, classes, height, width, head),
        args=(torch.randn(batch.size, 3, height, width),),
        loss=DetectionLoss(
            anchors=torch.randint(anchors, (batch.size, _COUNTED)),
            is_object=torch.rand(batch.size, _COUNTED),
            shifts=torch.rand(batch.size, _COUNTED, 4),
            labels=labels,
            box_columns=columns,
            boxes=torch.rand(read, 4),
            maps=maps,
        ),
    )


def faster_rcnn(
    batch: Batch, trunk: str = "r50", num_classes: int = 80, height: int = 800, width: int = 1088
) -> Parts:
    """Build Faster R-CNN for the classes of COCO."""
    return _parts(batch, trunk, num_classes, (height, width), None)


def mask_rcnn(
    batch: Batch, trunk: str = "r50", num_classes: int = 80, height: int = 800, width: int = 1088
) -> Parts:
    """Build Mask R-CNN for the classes of COCO."""
    return _parts(batch, trunk, num_classes, (height, width), _mask_head(num_classes))


def keypoint_rcnn(batch: Batch, trunk: str = "r50", height: int = 800, width: int = 1088) -> Parts:
    """Build Keypoint R-CNN for persons."""
    return _parts(batch, trunk, 1, (height, width), _key_point_head())
