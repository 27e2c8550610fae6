"""Losses that hold their targets: callables from a model's output to a scalar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional


@dataclass(frozen=True)
class ClassificationLoss:
    r"""Cross-entropy of class scores.

    :math:`-\\frac{1}{B} \\sum_b \\log \\mathrm{softmax}(z_b)_{t_b}`. A model with several heads
    (distilled and auxiliary ones) gets the mean over its heads.

    Parameters
    ----------
    target : torch.Tensor
        Class numbers, shape (B,), int64.
    """

    target: torch.Tensor

    def __call__(self, output: Any) -> torch.Tensor:
        """Return the mean loss over heads and samples, a scalar."""
        heads = output_tensors(output)
        losses = [functional.cross_entropy(head, self.target) for head in heads]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()


@dataclass(frozen=True)
class FeatureLoss:
    """Mean square of every output: a stand-in where a model has no head to train."""

    def __call__(self, output: Any) -> torch.Tensor:
        """Return the mean square, averaged over outputs, a scalar."""
        losses = [tensor.square().mean() for tensor in output_tensors(output)]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()


@dataclass(frozen=True)
class OwnLoss:
    """The loss that the model computed itself from the labels among its inputs."""

    def __call__(self, output: Any) -> torch.Tensor:
        """Return ``output.loss``, a scalar."""
        loss = output.loss
        if not isinstance(loss, torch.Tensor):
            raise TypeError(f"{type(output).__name__} carries no loss; were labels given?")
        return loss


def output_tensors(output: Any) -> list[torch.Tensor]:
    """Return the floating-point tensors of an output, in order.

    Parameters
    ----------
    output : object
        A tensor, or sequences and mappings of them.
    """
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, dict):
        output = output.values()
    if isinstance(output, (str, bytes)) or not hasattr(output, "__iter__"):
        return []
    return [tensor for part in output for tensor in output_tensors(part)]
