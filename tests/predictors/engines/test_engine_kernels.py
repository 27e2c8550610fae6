"""What is left of graphs in an engine, counted by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from perfmodel.capture.torch import capture_module
from perfmodel.graph.ir import Graph
from perfmodel.predictors.engines.engine_kernels import engine_kernels
from perfmodel.types import Mode


class Residual(nn.Module):
    """Convolution, norm, activation, convolution, norm, addition, activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.first(x)))
        return torch.relu(self.norm2(self.second(y)) + x)


class Attention(nn.Module):
    """Scores, their softmax and the mix of values, as single operators."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / 4.0, dim=-1) @ v


def _graph(module: nn.Module, *args: torch.Tensor) -> Graph:
    return capture_module(module.eval(), args, mode=Mode.INFERENCE)


def test_norms_activations_and_additions_join_their_convolution() -> None:
    x = torch.zeros(2, 8, 4, 4, device="meta")
    kernels = engine_kernels(_graph(Residual().to("meta"), x))
    # Two convolutions; each 2 * 2*8*4*4 outputs * 8*3*3.
    assert kernels.flops.tolist() == [2 * 256 * 72] * 2
    assert kernels.is_convolution.all()
    # The first: 256 in, 576 weights, 256 out, 4 vectors of the norm; the second reads x beside it.
    first, second = kernels.elements.tolist()
    assert first == pytest.approx(256 + 576 + 256, abs=4 * 8)
    assert second == pytest.approx(256 + 576 + 256 + 256, abs=4 * 8)
    # The image and weights are given; the second writes what the first does not.
    assert kernels.given[0] == pytest.approx(256 + 576, abs=4 * 8)
    assert kernels.given[1] == pytest.approx(576 + 256, abs=4 * 8)
    assert kernels.is_known


def test_attention_of_single_operators_is_one_kernel() -> None:
    q, k, v = (torch.zeros(3, 5, 16, device="meta") for _ in range(3))
    kernels = engine_kernels(_graph(Attention(), q, k, v))
    # Both products of 3 x 5 x 5 x 16; scores never leave the kernel.
    assert kernels.flops.tolist() == [2 * 2 * 3 * 5 * 5 * 16]
    assert kernels.elements.tolist() == [4 * 3 * 5 * 16]


def test_grouped_convolutions_were_not_learned_from() -> None:
    x = torch.zeros(2, 8, 4, 4, device="meta")
    assert not engine_kernels(_graph(nn.Conv2d(8, 8, 3, groups=8).to("meta"), x)).is_known


class Cast(nn.Module):
    """A product in 16 bits whose weights are cast in every step, as autocast has it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)
        self.register_buffer("mask", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.linear.weight.half(), self.linear.bias.half()
        return torch.nn.functional.linear(x, weight, bias) * (1.0 - self.mask).half()


def test_what_is_worked_out_of_weights_alone_is_a_constant() -> None:
    x = torch.zeros(4, 16, device="meta", dtype=torch.float16)
    kernels = engine_kernels(_graph(Cast().to("meta"), x))
    assert kernels.flops.tolist() == [2 * 4 * 8 * 16]
    # In, weights, bias and mask; and out.
    assert kernels.elements.tolist() == [4 * 16 + 8 * 16 + 8 + 8 + 4 * 8]


def test_a_cast_of_what_comes_in_is_run() -> None:
    x = torch.zeros(4, 16, device="meta")
    kernels = engine_kernels(_graph(_CastInput().to("meta"), x))
    assert kernels.elements.tolist() == [2 * 4 * 16, 4 * 16 + 8 * 16 + 4 * 8]


class _CastInput(nn.Module):
    """What comes in is cast, and multiplied with weights that are in 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8, bias=False, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x.half())
        return y


def test_of_a_table_the_rows_that_are_looked_up_are_read() -> None:
    table = nn.Embedding(10_000, 16).to("meta")
    words = torch.zeros(4, 3, dtype=torch.int64, device="meta")
    kernels = engine_kernels(_graph(table, words))
    # Twelve rows of 16 in and out, beside the twelve words, which are twice as wide.
    assert kernels.elements.sum() == pytest.approx(2 * 12 * 16 + 12, abs=2 * 12)
