"""FLOPs of captured models against published figures and against PyTorch's own counter."""

from __future__ import annotations

import pytest
import torch
from graph_totals import totals
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from perfmodel.capture.program import make_program
from perfmodel.capture.torch import capture, capture_module
from perfmodel.graph.cost import cost_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.types import Mode, Phase
from perfmodel.zoo.libraries import import_timm


def named(name: str, mode: Mode, batch_size: int = 1) -> Graph:
    timm = import_timm()
    with torch.device("meta"):
        module = timm.create_model(name)
        images = torch.empty(batch_size, 3, 224, 224)
    return capture(make_program(module, (images,), mode=mode))


def matrix_flops(graph: Graph, phase: Phase | None = None) -> float:
    """Add up convolutions, products and attention."""
    table = cost_table(graph)
    kinds = (OpClass.CONVOLUTION, OpClass.MATMUL, OpClass.ATTENTION)
    codes = [code for code, kind in enumerate(OpClass) if kind in kinds]
    rows = [
        i
        for i, node in enumerate(graph.nodes)
        if table.op_class[i] in codes and phase in (None, node.phase)
    ]
    return float(table.flops[rows].sum())


def test_resnet50_forward_is_4_09_gmac() -> None:
    forward = matrix_flops(named("resnet50", Mode.INFERENCE)) / 2
    # He et al. and timm state 4.09 to 4.11 G multiply-adds at 224 x 224.
    assert forward == pytest.approx(4.09e9, rel=0.002)


def test_resnet50_training_is_three_times_forward() -> None:
    graph = named("resnet50", Mode.TRAINING)
    forward, whole = matrix_flops(graph, Phase.FORWARD), matrix_flops(graph)
    # The first convolution (64 x 3 x 7 x 7 on 112 x 112) needs no gradient of its input.
    stem = 2 * 112 * 112 * 64 * 3 * 7 * 7
    assert whole == 3 * forward - stem
    assert whole / forward == pytest.approx(3, rel=0.02)
    # Everything else (normalisation, activations, the update) is a few per cent.
    assert totals(graph).flops == pytest.approx(3 * forward, rel=0.05)


def test_batch_scales_the_work_of_the_passes() -> None:
    one, four = (matrix_flops(named("resnet18", Mode.TRAINING, n)) for n in (1, 4))
    assert four == 4 * one


def counted_by_torch(module: nn.Module, *inputs: torch.Tensor) -> float:
    with FlopCounterMode(display=False) as counter:
        module(*inputs).sum().backward()
    return float(counter.get_total_flops())


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.Conv1d(4, 6, 5, dilation=2),
        nn.Conv3d(4, 2, 3),
        nn.Sequential(nn.Flatten(), nn.LazyLinear(7), nn.ReLU(), nn.Linear(7, 3)),
    ],
    ids=["conv2d", "conv1d", "conv3d", "mlp"],
)
def test_agrees_with_pytorch_where_it_is_right(module: nn.Module) -> None:
    rank = module.weight.dim() - 2 if isinstance(module, nn.modules.conv._ConvNd) else 2
    x = torch.rand(2, 4, *[12] * rank)
    module(x)
    expected = counted_by_torch(module, x)
    graph = capture_module(module, (x,), mode=Mode.TRAINING)
    table = cost_table(graph)
    bias = sum(
        graph.inputs_of(node)[0].element_count
        for node in graph.nodes
        if node.op == "convolution_backward"
    )
    # PyTorch leaves out the additions into the bias; nothing else here is a contraction.
    assert float(table.flops[table.engine_is_matrix].sum()) - bias == expected


def test_pytorch_overcounts_the_backward_pass_of_grouped_convolutions() -> None:
    module = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False)
    x = torch.rand(1, 32, 8, 8, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        forward_output = module(x)
        forward = counter.get_total_flops()
        forward_output.sum().backward()
    backward = counter.get_total_flops() - forward
    # 2048 outputs of 9 multiply-adds; each of the two gradients takes as many.
    assert forward == 2 * 2048 * 9
    assert backward > 10 * forward
    graph = capture_module(
        nn.Sequential(nn.Conv2d(32, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False)),
        (torch.rand(1, 32, 8, 8),),
        mode=Mode.TRAINING,
    )
    table = cost_table(graph)
    ours = [
        table.flops[i]
        for i, node in enumerate(graph.nodes)
        if node.op == "convolution_backward" and node.attrs["groups"] == 32
    ]
    assert ours == [2 * forward]


def test_convnext_training_is_92_gflop_an_image() -> None:
    # 30.7 GFLOP forward, three times that for the step, less the stem's input gradient.
    assert matrix_flops(named("convnext_base", Mode.TRAINING)) == pytest.approx(92e9, rel=0.01)


@pytest.mark.parametrize(
    "name",
    ["vit_base_patch16_224", "efficientnet_b0", "swin_tiny_patch4_window7_224", "convnext_tiny"],
)
def test_models_are_priced_in_full(name: str) -> None:
    assert totals(named(name, Mode.TRAINING, 8)).unpriced == {}
