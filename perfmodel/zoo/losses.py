"""Losses that hold their targets: callables from a model's output to a scalar."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
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
class TokenLoss:
    """Cross-entropy of the scores of every position of every sequence.

    Parameters
    ----------
    target : torch.Tensor
        Token numbers, shape (B, S), int64.
    label_smoothing : float
        Probability that is spread over the whole vocabulary, in [0, 1].
    """

    target: torch.Tensor
    label_smoothing: float = 0.0

    def __call__(self, output: torch.Tensor) -> torch.Tensor:
        """Return the mean loss over positions, from scores of shape (B, S, V)."""
        return functional.cross_entropy(
            output.flatten(0, 1), self.target.flatten(), label_smoothing=self.label_smoothing
        )


@dataclass(frozen=True)
class SpanLoss:
    """Mean of two cross-entropies over positions: where a span starts and where it ends.

    Parameters
    ----------
    start, end : torch.Tensor
        Positions, shape (B,), int64.
    """

    start: torch.Tensor
    end: torch.Tensor

    def __call__(self, output: torch.Tensor) -> torch.Tensor:
        """Return the loss from scores of shape (B, S, 2)."""
        starts, ends = output.unbind(2)
        first = functional.cross_entropy(starts, self.start)
        return (first + functional.cross_entropy(ends, self.end)) / 2


@dataclass(frozen=True)
class BinaryLoss:
    """Binary cross-entropy of scores.

    Parameters
    ----------
    target : torch.Tensor
        0 or 1, shape of the scores, float.
    """

    target: torch.Tensor

    def __call__(self, output: torch.Tensor) -> torch.Tensor:
        """Return the mean loss over all scores."""
        return functional.binary_cross_entropy_with_logits(output, self.target.to(output.dtype))


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
    """Return the floating-point tensors of an output, in order."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, dict):
        output = output.values()
    elif is_dataclass(output) and not hasattr(output, "__iter__"):
        output = [getattr(output, one.name) for one in fields(output)]
    if isinstance(output, (str, bytes)) or not hasattr(output, "__iter__"):
        return []
    return [tensor for part in output for tensor in output_tensors(part)]
