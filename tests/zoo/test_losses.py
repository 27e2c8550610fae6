from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from perfmodel.zoo.losses import (
    BinaryLoss,
    ClassificationLoss,
    FeatureLoss,
    OwnLoss,
    SpanLoss,
    TokenLoss,
    output_tensors,
)


def test_equal_scores_cost_the_logarithm_of_the_classes() -> None:
    # softmax of equal scores over n classes is 1 / n, whatever the target
    four = ClassificationLoss(torch.tensor([0, 3]))(torch.zeros(2, 4))
    assert four.item() == pytest.approx(math.log(4))
    tokens = TokenLoss(torch.zeros(2, 5, dtype=torch.int64))(torch.zeros(2, 5, 7))
    assert tokens.item() == pytest.approx(math.log(7))
    span = SpanLoss(torch.tensor([1]), torch.tensor([2]))(torch.zeros(1, 8, 2))
    assert span.item() == pytest.approx(math.log(8))
    assert BinaryLoss(torch.ones(3))(torch.zeros(3)).item() == pytest.approx(math.log(2))


def test_several_heads_are_averaged() -> None:
    loss = ClassificationLoss(torch.tensor([0]))
    right, wrong = torch.tensor([[9.0, 0.0]]), torch.tensor([[0.0, 9.0]])
    expected = (loss(right) + loss(wrong)) / 2
    assert loss((right, wrong)).item() == pytest.approx(expected.item())


def test_feature_loss_is_the_mean_square() -> None:
    # (1 + 4 + 9 + 16) / 4 = 7.5
    assert FeatureLoss()(torch.tensor([1.0, 2.0, 3.0, 4.0])).item() == pytest.approx(7.5)


def test_own_loss_needs_one() -> None:
    assert OwnLoss()(SimpleNamespace(loss=torch.tensor(2.0))).item() == 2.0
    with pytest.raises(TypeError, match="were labels given"):
        OwnLoss()(SimpleNamespace(loss=None))


def test_output_tensors_walks_nests_and_skips_integers() -> None:
    a, b = torch.ones(1), torch.zeros(2)
    found = output_tensors({"x": a, "y": [b, torch.ones(3, dtype=torch.int64), "text", None]})
    assert [tensor.shape for tensor in found] == [a.shape, b.shape]
