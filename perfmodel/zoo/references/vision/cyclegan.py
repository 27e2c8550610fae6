"""CycleGAN: two generators that translate images to and fro, and two that judge them.

One training step updates all four networks: six passes through generators and six through
discriminators, as in the published recipe. The generators' losses reach no weight of the
discriminators, and the discriminators' losses reach no generator, so that one backward pass over
the sum gives the gradients of the two alternating updates, at the same work.

Left out: the pool of earlier fake images, which copies tensors of one batch.

Reference: Zhu et al., Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial
Networks, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts

_CYCLE_WEIGHT = 10.0
_IDENTITY_WEIGHT = 5.0


class Translated(NamedTuple):
    """What one training pass gives, for one direction.

    ``same`` is a real image of the target domain sent through the generator, ``again`` the source
    image sent there and back; ``judged`` are the scores of the fake for the generator's loss.
    """

    source: Tensor
    target: Tensor
    again: Tensor
    same: Tensor
    judged: Tensor
    real_score: Tensor
    fake_score: Tensor


def _unit(convolution: nn.Module, width: int) -> tuple[nn.Module, ...]:
    return convolution, nn.InstanceNorm2d(width), nn.ReLU(inplace=True)


class MirrorBlock(nn.Module):
    """Two 3x3 convolutions on mirrored borders beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.ReflectionPad2d(1), *_unit(nn.Conv2d(width, width, 3), width),
            nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width),
        )  # fmt: skip

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform ``inputs`` (B, C, H, W)."""
        result: Tensor = inputs + self.branch(inputs)
        return result


def generator(blocks: int) -> nn.Sequential:
    """Return the translator: two steps down, residual blocks, two steps up."""
    down, up = (64, 128), (256, 128)
    halve = [
        part for w in down
        for part in _unit(nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), 2 * w)
    ]  # fmt: skip
    double = [
        part for w in up
        for part in _unit(
            nn.ConvTranspose2d(w, w // 2, 3, stride=2, padding=1, output_padding=1), w // 2
        )
    ]  # fmt: skip
    return nn.Sequential(
        nn.ReflectionPad2d(3), *_unit(nn.Conv2d(3, 64, 7), 64), *halve,
        *(MirrorBlock(256) for _ in range(blocks)), *double,
        nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh(),
    )  # fmt: skip


def discriminator() -> nn.Sequential:
    """Return the judge of overlapping patches of 70x70 pixels."""

    def layer(inputs: int, outputs: int, stride: int) -> tuple[nn.Module, ...]:
        convolution = nn.Conv2d(inputs, outputs, 4, stride=stride, padding=1)
        return convolution, nn.InstanceNorm2d(outputs), nn.LeakyReLU(0.2, inplace=True)

    return nn.Sequential(
        nn.Conv2d(3, 64, 4, stride=2, padding=1), nn.LeakyReLU(0.2, inplace=True),
        *layer(64, 128, 2), *layer(128, 256, 2), *layer(256, 512, 1),
        nn.Conv2d(512, 1, 4, padding=1),
    )  # fmt: skip


class CycleGan(nn.Module):
    """Both generators and both discriminators; inference translates both ways."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.to_second = generator(blocks)
        self.to_first = generator(blocks)
        self.judge_second = discriminator()
        self.judge_first = discriminator()

    def forward(
        self, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor] | tuple[Translated, Translated]:
        """Translate images (B, 3, S, S) of both domains; in training also judge and return."""
        there, back = self.to_second(first), self.to_first(second)
        if not self.training:
            return there, back
        return (
            self._direction(self.to_second, self.to_first, self.judge_second, first, second, there),
            self._direction(self.to_first, self.to_second, self.judge_first, second, first, back),
        )

    @staticmethod
    def _direction(
        translate: nn.Module, revert: nn.Module, judge: nn.Module,
        source: Tensor, target: Tensor, fake: Tensor,
    ) -> Translated:  # fmt: skip
        frozen = {name: weight.detach() for name, weight in judge.named_parameters()}
        return Translated(
            source=source,
            target=target,
            again=revert(fake),
            same=translate(target),
            judged=functional_call(judge, frozen, (fake,)),
            real_score=judge(target),
            fake_score=judge(fake.detach()),
        )


@dataclass(frozen=True)
class CycleLoss:
    """Least-squares adversarial losses of all four networks, cycle and identity losses."""

    def __call__(self, output: tuple[Translated, Translated]) -> Tensor:
        """Return the sum over both directions, a scalar."""
        return torch.stack([self._of(direction) for direction in output]).sum()

    @staticmethod
    def _of(found: Translated) -> Tensor:
        cycle = _CYCLE_WEIGHT * functional.l1_loss(found.again, found.source)
        identity = _IDENTITY_WEIGHT * functional.l1_loss(found.same, found.target)
        judging = _distance(found.real_score, 1.0) + _distance(found.fake_score, 0.0)
        return cycle + identity + _distance(found.judged, 1.0) + judging / 2


def _distance(score: Tensor, value: float) -> Tensor:
    return functional.mse_loss(score, torch.full_like(score, value))


def cyclegan(batch: Batch, img_size: int = 256, num_blocks: int = 9) -> Parts:
    """Build CycleGAN; a sample is an image of each domain."""
    shape = (batch.size, 3, img_size, img_size)
    return Parts(
        module=CycleGan(num_blocks),
        args=(torch.rand(shape) * 2 - 1, torch.rand(shape) * 2 - 1),
        loss=CycleLoss(),
    )
