"""VGG without batch norms, whose first fully connected layer is as large as the image makes it.

Keras builds it so: what five poolings leave of an image is flattened, so that at 32 pixels that
layer has 2 million weights in place of the 103 million at 224. In PyTorch's libraries the last map
is pooled or padded to 7 x 7 whatever the image.
"""

from __future__ import annotations

import torch
from torch import nn

from perfmodel.zoo.losses import ClassificationLoss
from perfmodel.zoo.references.reference import Batch, Parts

_WIDTHS = (64, 128, 256, 512, 512)
#: Convolutions before each pooling.
_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2,) * 5, 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_HIDDEN = 4096
_SMALLEST_IMAGE = 2 ** len(_WIDTHS)


def vgg(batch: Batch, depth: int = 16, num_classes: int = 1000, img_size: int = 224) -> Parts:
    """Build VGG of 11, 13, 16 or 19 layers with weights.

    Raises
    ------
    ValueError
        Another depth, or an image of which the poolings leave nothing.
    """
    if depth not in _DEPTHS:
        raise ValueError(f"depth is one of {', '.join(map(str, _DEPTHS))}, got {depth}")
    if img_size < _SMALLEST_IMAGE:
        raise ValueError(f"img_size is at least {_SMALLEST_IMAGE}, got {img_size}")
    features: list[nn.Module] = []
    channels = 3
    for width, convolutions in zip(_WIDTHS, _DEPTHS[depth], strict=True):
        for _ in range(convolutions):
            features += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        features.append(nn.MaxPool2d(2))
    left = channels * (img_size // _SMALLEST_IMAGE) ** 2
    head = (
        nn.Flatten(),
        nn.Linear(left, _HIDDEN), nn.ReLU(inplace=True),
        nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(inplace=True),
        nn.Linear(_HIDDEN, num_classes),
    )  # fmt: skip
    return Parts(
        module=nn.Sequential(*features, *head),
        args=(torch.randn(batch.size, 3, img_size, img_size),),
        loss=ClassificationLoss(torch.randint(num_classes, (batch.size,))),
    )
