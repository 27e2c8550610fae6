"""The capture of an export and the capture of the module it came from agree."""

from __future__ import annotations

import pytest
from graph_totals import totals
from onnx_files import exported

from perfmodel.graph.cost.base import OpClass
from perfmodel.types import Mode, Phase, Precision

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfmodel.capture.onnx import capture_onnx  # noqa: E402
from perfmodel.capture.torch import capture_module  # noqa: E402

PRODUCTS = (OpClass.MATMUL, OpClass.CONVOLUTION, OpClass.ATTENTION, OpClass.RECURRENT)


class Block(nn.Module):
    """Two convolutions around a shortcut, as in a residual network."""

    def __init__(self, inward, outward, stride):
        super().__init__()
        self.first = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outward)
        self.second = nn.Conv2d(outward, outward, 3, 1, 1, bias=False, groups=2)
        self.short = nn.Conv2d(inward, outward, 1, stride)

    def forward(self, x):
        y = self.second(torch.relu(self.norm(self.first(x))))
        return torch.relu(y + self.short(x))


def residual_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


class Attention(nn.Module):
    """Attention written out, so that both captures see the same products."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.packed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        query, key, value = self.packed(self.norm(x)).view(shape).permute(2, 0, 3, 1, 4)
        scores = (query @ key.transpose(-2, -1) * 0.5).softmax(-1)
        return x + self.out((scores @ value).transpose(1, 2).reshape(batch, length, width))


class Transformer(nn.Module):
    """Embedding, two layers, a head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.Sequential(*(
            nn.Sequential(Attention(16, 4), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
            for _ in range(2)
        ))  # fmt: skip
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


class Recurrent(nn.Module):
    """An LSTM and a GRU, one after the other."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(6, 5, bidirectional=True, batch_first=True)
        self.second = nn.GRU(10, 4, batch_first=True)

    def forward(self, x):
        return self.second(self.first(x)[0])[0]


def upsampling_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.ConvTranspose2d(8, 6, 2, 2),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(6, 6, 3, groups=6, padding=1),
        nn.Hardswish(), nn.AvgPool2d(2), nn.Conv2d(6, 3, 1),
    )  # fmt: skip


MODELS = {
    "residual": (residual_network, lambda: torch.randn(2, 3, 32, 32)),
    "transformer": (Transformer, lambda: torch.randint(50, (2, 7))),
    "recurrent": (Recurrent, lambda: torch.randn(2, 7, 6)),
    "upsampling": (upsampling_network, lambda: torch.randn(2, 3, 10, 10)),
}


def both(name, mode, **options):
    """Return the Graph of the export and the Graph of the module."""
    make, example = MODELS[name]
    data = exported(make(), (example(),), training=mode is Mode.TRAINING)
    with torch.device("meta"):
        module, args = make(), (example(),)
    if mode is Mode.TRAINING:
        options["optimizer"] = "adamw"
    else:
        module.eval()
    reference = capture_module(module, args, mode=mode, **options)
    return capture_onnx(data, mode=mode, **options), reference


def products(graph, phase=None):
    """FLOPs of matrix products and convolutions, of one phase or of all."""
    kept = graph if phase is None else [n for n in graph.nodes if n.phase is phase]
    if phase is None:
        by_class = totals(graph).flops_by_class
        return sum(by_class.get(c, 0.0) for c in PRODUCTS)
    part = type(graph)(nodes=tuple(kept), tensors=graph.tensors)
    return products(part)


@pytest.mark.parametrize("name", MODELS)
def test_forward_products_are_equal(name):
    onnx_graph, torch_graph = both(name, Mode.INFERENCE)
    assert products(onnx_graph) == pytest.approx(products(torch_graph), rel=1e-3)
    assert not totals(onnx_graph).unpriced


@pytest.mark.parametrize("name", MODELS)
def test_training_products_agree_in_each_phase(name):
    onnx_graph, torch_graph = both(name, Mode.TRAINING)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert products(onnx_graph, phase) == pytest.approx(products(torch_graph, phase), rel=0.02)
    assert totals(onnx_graph).flops == pytest.approx(totals(torch_graph).flops, rel=0.15)
    assert not totals(onnx_graph).unpriced


@pytest.mark.parametrize("name", ["residual", "transformer"])
def test_parameters_gradients_and_state_are_the_same(name):
    from perfmodel.types import Role

    onnx_graph, torch_graph = both(name, Mode.TRAINING)
    assert onnx_graph.parameter_count == torch_graph.parameter_count
    for role in (Role.PARAMETER, Role.GRADIENT, Role.OPTIMIZER_STATE):
        assert onnx_graph.storage_bytes(role) == torch_graph.storage_bytes(role)


def test_residual_networks_run_the_same_operators():
    onnx_graph, torch_graph = both("residual", Mode.TRAINING)

    def heavy(graph):
        light = {"add_", "view", "t"}  # add_ counts the batches of a normalisation
        return sorted(n.op for n in graph.nodes if n.op not in light)

    assert heavy(onnx_graph) == heavy(torch_graph)


def test_autocast_brings_the_same_products_to_half():
    onnx_graph, torch_graph = both("residual", Mode.TRAINING, precision=Precision.AMP_BF16)

    def typed(graph):
        return sorted(
            (n.op, graph.outputs_of(n)[0].dtype)
            for n in graph.nodes
            if n.op in ("convolution", "convolution_backward", "addmm", "mm", "native_batch_norm")
        )

    assert typed(onnx_graph) == typed(torch_graph)


def test_a_dynamic_export_scales_with_its_batch():
    data = exported(
        residual_network(), (torch.randn(2, 3, 32, 32),), input_names=["x"],
        dynamic_axes={"x": {0: "batch"}},
    )  # fmt: skip
    one, four = (capture_onnx(data, batch_size=n) for n in (1, 4))
    assert products(four) == 4 * products(one)
