"""The same step, by shape and for real: equal operators in equal order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from perfmodel.capture.optimizers import OPTIMIZERS, Lamb
from perfmodel.capture.program import Program, default_loss, make_program
from perfmodel.capture.recording.signature import signature_of
from perfmodel.capture.torch import capture, capture_module
from perfmodel.errors import InvalidInputError
from perfmodel.types import MemoryFormat, Mode, Phase, Precision, Role


class Block(nn.Module):
    """Convolution, attention and an MLP with a residual: most of what models do."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> Tensor:
        """Mix tokens, then channels."""
        q, k, v = self.qkv(self.norm(x)).view(2, 16, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 16, 16)
        result: Tensor = x + self.mlp(x)
        return result


class Model(nn.Module):
    """A stem, two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.BatchNorm2d(16), nn.SiLU())
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(16, 5)

    def forward(self, images: Tensor) -> Tensor:
        """Classify."""
        tokens = self.stem(images).flatten(2).transpose(1, 2)
        result: Tensor = self.head(self.blocks(tokens).mean(1))
        return result


class Listing(TorchDispatchMode):
    """Lists what really runs."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, tuple[int, ...], str]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Run and list one operator."""
        result = func(*args, **(kwargs or {}))
        signature = signature_of(func)
        # Reading a value back and allocating are no work; the graph leaves them out.
        is_host = func.namespace == "profiler" or signature.op in ("_local_scalar_dense", "empty")
        if not is_host and not signature.is_transparent:
            first = result if isinstance(result, Tensor) else None
            shape = tuple(first.shape) if first is not None else ()
            dtype = str(first.dtype).removeprefix("torch.") if first is not None else ""
            self.rows.append((signature.op, shape, dtype))
        return result


def images() -> Tensor:
    return torch.rand(2, 3, 16, 16)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": Mode.INFERENCE},
        {"mode": Mode.INFERENCE, "precision": Precision.BF16},
        {"mode": Mode.TRAINING},
        {"mode": Mode.TRAINING, "optimizer": "adamw"},
        {"mode": Mode.TRAINING, "optimizer": "lamb"},
        {"mode": Mode.TRAINING, "accumulation_steps": 2, "optimizer": "momentum"},
        {"mode": Mode.TRAINING, "activation_checkpointing": True},
        {"mode": Mode.TRAINING, "memory_format": MemoryFormat.CHANNELS_LAST},
    ],
    ids=str,
)
def test_captured_operators_are_those_that_run(options: dict[str, Any]) -> None:
    program = make_program(Model(), (images(),), **options)
    graph = capture(program)
    program.step()
    listing = Listing()
    with listing:
        program.step()
    captured = [
        (n.op, *describe(graph.outputs_of(n)[0]))
        for n in graph.nodes
        if len(n.outputs) == 1 and not n.op.startswith("_foreach")
    ]
    run = [row for row in listing.rows if row[2] and not row[0].startswith("_foreach")]
    single = {op for op, *_ in captured}
    assert [row for row in captured if row[0] in single] == [row for row in run if row[0] in single]
    assert [n.op for n in graph.nodes] == [op for op, *_ in listing.rows]


def describe(tensor: Any) -> tuple[tuple[int, ...], str]:
    return tensor.shape, tensor.dtype


def test_autocast_casts_as_a_real_device_does() -> None:
    # The policies of CPU and CUDA agree on convolutions and linear layers.
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 5))
    program = make_program(model, (images(),), mode=Mode.TRAINING, precision=Precision.AMP_BF16)
    graph = capture(program)
    listing = Listing()
    with listing:
        program.step()
    assert [n.op for n in graph.nodes] == [op for op, *_ in listing.rows]
    convolution = next(n for n in graph.nodes if n.op == "convolution")
    assert {graph.tensors[i].dtype for i in convolution.inputs} == {"bfloat16"}
    gradients = {t.dtype for t in graph.tensors if t.role is Role.GRADIENT}
    assert gradients == {"float32"}


def test_cuda_policy_keeps_layer_norm_and_softmax_in_float32() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(self.norm(self.linear(x)) + self.linear(x), -1).pow(2)

    graph = capture_module(Mixed(), (torch.zeros(2, 4),), mode=Mode.INFERENCE,
                           precision=Precision.AMP_FP16)  # fmt: skip
    dtypes = {n.op: graph.outputs_of(n)[0].dtype for n in graph.nodes}
    assert dtypes["addmm"] == "float16"
    assert dtypes["native_layer_norm"] == "float32"
    assert dtypes["_softmax"] == "float32"
    # float16 + float32 is float32 by ordinary promotion.
    assert dtypes["add"] == "float32"
    # The weight that is used twice is cast once: one input, one weight, one bias.
    casts = [n for n in graph.nodes if n.op == "_to_copy" and n.phase is Phase.FORWARD]
    lowered = [n for n in casts if graph.outputs_of(n)[0].dtype == "float16"]
    assert Counter_of_shapes(graph, lowered)[(4, 4)] == 1


def Counter_of_shapes(graph: Any, nodes: list[Any]) -> dict[tuple[int, ...], int]:  # noqa: N802
    counts: dict[tuple[int, ...], int] = {}
    for node in nodes:
        shape = graph.outputs_of(node)[0].shape
        counts[shape] = counts.get(shape, 0) + 1
    return counts


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizer_state_is_there_before_the_step(name: str) -> None:
    graph = capture_module(Model(), (images(),), mode=Mode.TRAINING, optimizer=name)
    nodes = [n for n in graph.nodes if n.phase is Phase.OPTIMIZER]
    assert nodes
    assert not {n.op for n in nodes} & {"zeros_like", "zeros", "new_zeros"}
    per_parameter = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "lamb": 2}
    if name in per_parameter:
        moments = sum(
            t.size_bytes for t in graph.tensors
            if t.role is Role.OPTIMIZER_STATE and t.shape != ()
            and graph.producer[graph.tensors.index(t)] < 0
        )  # fmt: skip
        assert moments >= per_parameter[name] * graph.storage_bytes(Role.PARAMETER)


def test_checkpointing_recomputes_blocks_in_the_backward_phase() -> None:
    plain = capture_module(Model(), (images(),), mode=Mode.TRAINING)
    saved = capture_module(Model(), (images(),), mode=Mode.TRAINING, activation_checkpointing=True)
    forward, backward = (
        [n.op for n in saved.nodes if n.phase is p] for p in (Phase.FORWARD, Phase.BACKWARD)
    )
    assert forward == [n.op for n in plain.nodes if n.phase is Phase.FORWARD]
    # The attention of each of the two blocks runs again.
    assert backward.count("scaled_dot_product_attention") == 2
    assert backward.count("convolution") == 0


def test_the_finest_group_of_blocks_is_checkpointed_and_nothing_that_overwrites_its_input() -> None:
    def block() -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 1)
        )

    body = nn.Sequential(block(), block(), block())
    # The outer group holds most parameters of all; its ReLU could not be computed again.
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), body, nn.Flatten())
    saved = capture_module(module, (images(),), mode=Mode.TRAINING, activation_checkpointing=True)
    backward = [n.op for n in saved.nodes if n.phase is Phase.BACKWARD]
    # PyTorch stops recomputing where nothing further is needed: before the last one of a block.
    assert backward.count("convolution") == 3
    assert backward.count("relu_") == 3

    flat = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3))
    saved = capture_module(flat, (images(),), mode=Mode.TRAINING, activation_checkpointing=True)
    # A block of one convolution needs no more than its input, which is saved.
    backward = [n.op for n in saved.nodes if n.phase is Phase.BACKWARD]
    assert backward.count("convolution_backward") == 2
    assert backward.count("convolution") == 0


def test_lamb_follows_its_equation() -> None:
    # One step from zero moments: m/(1-b1) = g, v/(1-b2) = g^2, so u = sign(g) + 0.01 w.
    weight = nn.Parameter(torch.tensor([3.0, -4.0]))
    weight.grad = torch.tensor([0.5, -2.0])
    Lamb([weight], lr=0.1, eps=0.0).step()
    update = torch.tensor([1.0 + 0.03, -1.0 - 0.04])
    ratio = 5.0 / update.norm()
    expected = torch.tensor([3.0, -4.0]) - 0.1 * ratio * update
    torch.testing.assert_close(weight.detach(), expected)


def test_lamb_moves_weights_that_start_at_zero() -> None:
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.ones(2)
    Lamb([weight], lr=0.1, eps=0.0).step()
    torch.testing.assert_close(weight.detach(), torch.tensor([-0.1, -0.1]))


def test_default_loss_takes_the_first_floating_tensor_that_can_be_trained() -> None:
    weight = torch.ones(3, requires_grad=True)
    output = {"ids": torch.zeros(2, dtype=torch.int64), "logits": (weight * 2,)}
    assert default_loss(output).item() == 2.0
    with pytest.raises(InvalidInputError, match="pass a loss"):
        default_loss(torch.zeros(3))


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"optimizer": "sgdd"}, "/optimizer"),
        ({"accumulation_steps": 0}, "/accumulation_steps"),
        ({"precision": Precision.INT8}, "/precision"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make_program(Model(), (images(),), **{"mode": Mode.TRAINING, **changes})
    assert caught.value.pointer == pointer


def test_module_without_parameters_cannot_train() -> None:
    with pytest.raises(InvalidInputError, match="parameters"):
        make_program(nn.ReLU(), (images(),), mode=Mode.TRAINING)


def test_real_step_trains() -> None:
    torch.manual_seed(0)
    program: Program = make_program(Model(), (images(),), mode=Mode.TRAINING, optimizer="adam")
    losses = [float(program.step()) for _ in range(5)]
    assert losses[-1] < losses[0]


def test_phases_are_announced_in_order() -> None:
    program = make_program(Model(), (images(),), mode=Mode.TRAINING, accumulation_steps=2)
    heard: list[Phase] = []
    program.step(heard.append)
    micro_batch = [Phase.FORWARD, Phase.BACKWARD]
    assert heard == [*micro_batch, *micro_batch, Phase.OPTIMIZER]
