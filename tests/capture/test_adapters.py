"""Adapters and frozen parameters: what is trained, and the arithmetic that is left out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from perfmodel.capture.torch import capture_module
from perfmodel.errors import InvalidInputError
from perfmodel.graph.cost import cost_table
from perfmodel.graph.ir import Graph
from perfmodel.graph.training_options.adapter import LowRankAdapter
from perfmodel.placement.memory.memory_profile import memory_profile
from perfmodel.types import Mode, Phase

ROWS, WIDTH, RANK = 8, 64, 4


def _module() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False))


def _captured(adapter: LowRankAdapter | None = None, frozen: tuple[str, ...] = ()) -> Graph:
    return capture_module(
        _module(), (torch.ones(ROWS, WIDTH),), mode=Mode.TRAINING, optimizer="adamw",
        adapter=adapter, frozen=frozen,
    )  # fmt: skip


def _product_flops(graph: Graph) -> float:
    flops = cost_table(graph).flops
    return float(
        sum(
            one
            for one, node in zip(flops, graph.nodes, strict=True)
            if node.op in ("mm", "addmm", "bmm") and node.phase is not Phase.OPTIMIZER
        )
    )


#: A product of one layer.
LAYER = 2 * ROWS * WIDTH * WIDTH
NARROW = 2 * ROWS * WIDTH * RANK


def test_frozen_layers_lose_the_gradient_of_their_weights_alone() -> None:
    # Two products forward; backward two of weights, and one of what goes into the second layer.
    assert _product_flops(_captured()) == 5 * LAYER
    # Nothing below the first layer is trained: only the second layer's weights have a gradient.
    assert _product_flops(_captured(frozen=("0.*",))) == 3 * LAYER
    # The first layer is trained through the second, which is not.
    assert _product_flops(_captured(frozen=("1.*",))) == 4 * LAYER


def test_an_adapter_adds_narrow_products_and_gradients_of_its_own() -> None:
    graph = _captured(LowRankAdapter(rank=RANK, target_modules=("0", "1")))
    # Forward 2 wide and 4 narrow. Backward: the second layer's input (wide), and of its narrow ones
    # two weights and two inputs; of the first layer's two weights and the input between them.
    assert _product_flops(graph) == 3 * LAYER + (4 + 4 + 3) * NARROW
    memory = memory_profile(graph)
    trained = 4.0 * 4 * WIDTH * RANK
    assert memory.gradient_bytes == trained
    # Two moments; AdamW's counters of steps are a number each.
    assert memory.optimizer_state_bytes == pytest.approx(2 * trained, abs=64)
    assert memory.parameter_bytes == 4.0 * 2 * WIDTH * WIDTH + trained


def test_all_linear_spares_the_last_layer() -> None:
    graph = _captured(LowRankAdapter(rank=RANK))
    assert memory_profile(graph).gradient_bytes == 4.0 * 2 * WIDTH * RANK


def test_saved_modules_and_biases_are_trained_as_they_are() -> None:
    def trained(bias: str, saved: tuple[str, ...] = ()) -> float:
        module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
        adapter = LowRankAdapter(rank=RANK, target_modules=("0",), bias=bias, modules_to_save=saved)
        graph = capture_module(
            module, (torch.ones(ROWS, WIDTH),), mode=Mode.TRAINING, adapter=adapter
        )
        return memory_profile(graph).gradient_bytes / 4

    narrow = 2 * WIDTH * RANK
    assert trained("none") == narrow
    assert trained("lora_only") == narrow + WIDTH
    assert trained("all") == narrow + 2 * WIDTH
    assert trained("none", ("1",)) == narrow + WIDTH * WIDTH + WIDTH


def test_names_that_nothing_has_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="called 0, 1"):
        _captured(LowRankAdapter(target_modules=("q_proj",)))
    with pytest.raises(InvalidInputError, match="No parameter's name matches"):
        _captured(frozen=("encoder.*",))
    with pytest.raises(InvalidInputError, match="require gradients"):
        _captured(frozen=("*",))
    with pytest.raises(InvalidInputError, match="modules_to_save"):
        _captured(LowRankAdapter(target_modules=("0",), modules_to_save=("head",)))


def test_only_linear_layers_are_adapted() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 4))
    with pytest.raises(InvalidInputError, match="0, a Conv2d"):
        capture_module(
            module, (torch.ones(2, 3, 8, 8),), mode=Mode.TRAINING,
            adapter=LowRankAdapter(target_modules=("0",)),
        )  # fmt: skip
