"""Capture of torch steps: edges, roles, phases, fused operators, errors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from graph_totals import totals
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.capture.program import make_program
from perfmodel.capture.torch import capture, capture_module
from perfmodel.errors import CaptureError
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph, Node
from perfmodel.types import Mode, Phase, Precision, Role


class Calls(nn.Module):
    """A module made of one function, with a linear layer to train."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, *args: Any) -> Any:
        """Call the function with the layer and the inputs."""
        return self.function(self.linear, *args)


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


IMAGES = torch.zeros(2, 3, 10, 10)


def ops_of(graph: Graph, phase: Phase) -> list[str]:
    return [node.op for node in graph.nodes if node.phase is phase]


def find(graph: Graph, op: str) -> Node:
    return next(node for node in graph.nodes if node.op == op)


def test_inference_records_operators_in_program_order() -> None:
    graph = capture_module(small_cnn(), (IMAGES,), mode=Mode.INFERENCE)
    assert ops_of(graph, Phase.FORWARD) == [
        "convolution", "native_batch_norm", "relu_", "mean", "view", "t", "addmm",
    ]  # fmt: skip
    assert graph.nodes[0].name == "0"
    assert graph.nodes[0].attrs["stride"] == (1, 1)
    assert graph.outputs_of(graph.nodes[0])[0].shape == (2, 8, 8, 8)


def test_in_place_result_is_a_new_tensor_on_the_same_storage() -> None:
    graph = capture_module(small_cnn(), (IMAGES,), mode=Mode.INFERENCE)
    relu = find(graph, "relu_")
    (before,), (after,) = relu.inputs, relu.outputs
    assert before != after
    assert graph.tensors[before].storage == graph.tensors[after].storage
    # What follows reads the result, not what was there before.
    assert find(graph, "mean").inputs == (after,)
    # Batch normalisation produced the memory.
    assert graph.nodes[graph.producer[before]].op == "native_batch_norm"


def test_training_step_has_all_phases_and_all_edges() -> None:
    graph = capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING, optimizer="adamw")
    backward = ops_of(graph, Phase.BACKWARD)
    assert backward.count("convolution_backward") == 1
    assert ops_of(graph, Phase.OPTIMIZER).count("_foreach_addcdiv_") == 1
    for node in graph.nodes:
        for index in node.inputs:
            # Whatever no node produced was there before the step.
            if graph.producer[index] < 0:
                assert graph.tensors[index].role is not Role.ACTIVATION


def test_memory_is_told_apart_by_role() -> None:
    module = small_cnn()
    graph = capture_module(module, (IMAGES,), mode=Mode.TRAINING, optimizer="adamw")
    # 3*8*9 + 8, two vectors of 8, 8*5 + 5.
    parameters = 224 + 16 + 45
    assert graph.parameter_count == parameters
    assert graph.storage_bytes(Role.PARAMETER) == 4 * parameters
    assert graph.storage_bytes(Role.GRADIENT) == 4 * parameters
    # Two moments, and a step counter for each of 6 parameters.
    assert graph.storage_bytes(Role.OPTIMIZER_STATE) == 2 * 4 * parameters + 4 * 6
    # Running mean and variance, and an int64 counter.
    assert graph.storage_bytes(Role.BUFFER) == 4 * 16 + 8
    assert graph.storage_bytes(Role.INPUT) == 4 * 600


def test_first_convolution_asks_for_no_gradient_of_its_input() -> None:
    graph = capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING)
    assert find(graph, "convolution_backward").attrs["output_mask"] == (False, True, True)


def test_backward_nodes_carry_the_name_of_their_layer() -> None:
    graph = capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING)
    assert find(graph, "convolution_backward").name == "0"
    assert find(graph, "native_batch_norm_backward").name == "1"


def test_gradient_accumulation_repeats_the_micro_batch() -> None:
    one = capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING)
    three = capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING, accumulation_steps=3)
    assert ops_of(three, Phase.FORWARD).count("convolution") == 3
    assert ops_of(three, Phase.OPTIMIZER) == ops_of(one, Phase.OPTIMIZER)
    # The second and third backward pass add into the six gradients.
    added = Counter(ops_of(three, Phase.BACKWARD))["add_"]
    assert added == Counter(ops_of(one, Phase.BACKWARD))["add_"] + 2 * 6
    assert three.storage_bytes(Role.GRADIENT) == one.storage_bytes(Role.GRADIENT)


def test_module_and_inputs_of_the_user_stay_as_they_are() -> None:
    module = small_cnn().eval()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    capture_module(module, (IMAGES,), mode=Mode.TRAINING, precision=Precision.BF16)
    assert not module.training
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None and p.device.type == "cpu" for p in module.parameters())


def test_a_program_that_cannot_be_copied_keeps_its_gradients() -> None:
    module = nn.Linear(3, 2)
    module.lock = threading.Lock()  # type: ignore[assignment]
    program = make_program(module, (torch.ones(5, 3),), mode=Mode.TRAINING)
    module.weight.grad = torch.ones(2, 3)
    with pytest.raises(CaptureError):
        capture(program)
    assert module.weight.grad is not None


def test_program_with_real_tensors_is_captured_without_running_it() -> None:
    module = small_cnn()
    program = make_program(module, (IMAGES,), mode=Mode.TRAINING, optimizer="momentum")
    state = {name: value.clone() for name, value in module.state_dict().items()}
    graph = capture(program)
    assert graph.storage_bytes(Role.OPTIMIZER_STATE) == graph.storage_bytes(Role.PARAMETER)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert program.optimizer is not None
    assert not program.optimizer.state


def test_capture_is_deterministic() -> None:
    graphs = [capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING) for _ in range(2)]
    assert graphs[0].content_hash == graphs[1].content_hash
    other = capture_module(small_cnn(), (IMAGES[:1],), mode=Mode.TRAINING)
    assert other.content_hash != graphs[0].content_hash


def test_tied_weights_count_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(11, 4)
            self.head = nn.Linear(4, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: Tensor) -> Tensor:
            result: Tensor = self.head(self.embedding(tokens))
            return result

    graph = capture_module(Tied(), (torch.zeros(2, 3, dtype=torch.int64),), mode=Mode.TRAINING)
    assert graph.parameter_count == 44
    assert graph.storage_bytes(Role.GRADIENT) == 4 * 44


@pytest.mark.parametrize("mask", [None, torch.zeros(1, 1, 6, 6)], ids=["plain", "masked"])
def test_attention_is_one_node_each_way(mask: Tensor | None) -> None:
    def attend(linear: nn.Module, x: Tensor) -> Any:
        y = linear(x).view(2, 6, 2, 2).transpose(1, 2)
        return functional.scaled_dot_product_attention(y, y, y, attn_mask=mask)

    graph = capture_module(Calls(attend), (torch.zeros(2, 6, 4),), mode=Mode.TRAINING)
    ops = Counter(node.op for node in graph.nodes)
    assert ops["scaled_dot_product_attention"] == 1
    assert ops["scaled_dot_product_attention_backward"] == 1
    assert ops["_softmax"] == 0
    # No 6 x 6 matrix of scores is materialised.
    scores = [t for t in graph.tensors if t.shape[-2:] == (6, 6) and t.role is Role.ACTIVATION]
    assert not scores


def test_attention_bias_that_is_learned_gets_its_gradient() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(6, 6))

        def forward(self, x: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x, attn_mask=self.bias)

    graph = capture_module(Biased(), (torch.zeros(1, 2, 6, 4),), mode=Mode.TRAINING)
    assert graph.storage_bytes(Role.GRADIENT) == 4 * 36


@pytest.mark.parametrize(
    ("layer", "op", "gates"), [(nn.LSTM, "lstm", 4), (nn.GRU, "gru", 3), (nn.RNN, "rnn_tanh", 1)]
)
def test_recurrent_layer_is_one_node_each_way(
    layer: Callable[..., nn.Module], op: str, gates: int
) -> None:
    module = layer(3, 8, num_layers=2, bidirectional=True)
    graph = capture_module(module, (torch.zeros(5, 2, 3),), mode=Mode.TRAINING)
    ops = Counter(node.op for node in graph.nodes)
    assert (ops[op], ops[f"{op}_backward"]) == (1, 1)
    # Both directions: layer one reads 3, layer two 16 features; each keeps 8 of its own.
    weights = 2 * gates * 8 * ((3 + 8) + (16 + 8))
    forward = totals(graph).flops_by_phase[Phase.FORWARD]
    assert forward == pytest.approx(2 * 10 * weights, rel=0.02)
    assert graph.storage_bytes(Role.GRADIENT) == graph.storage_bytes(Role.PARAMETER)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
def test_recurrent_cell_is_two_products_and_one_kernel(precision: Precision) -> None:
    module, inputs = nn.LSTMCell(3, 8), (torch.zeros(2, 3),)
    graph = capture_module(module, inputs, mode=Mode.TRAINING, precision=precision)
    ops = Counter(node.op for node in graph.nodes if node.phase is Phase.FORWARD)
    assert (ops["mm"], ops["_thnn_fused_lstm_cell"], ops["sigmoid"]) == (2, 1, 0)
    # Four gates of 8 read 3 features and 8 of their own; ten operations for each gate value.
    matmul = totals(graph).flops_by_class[OpClass.MATMUL]
    # Backward: gradients of both weights; the inputs and the zero state need none.
    assert matmul == 2 * (2 * 2 * 4 * 8 * (3 + 8))
    assert graph.storage_bytes(Role.GRADIENT) == graph.storage_bytes(Role.PARAMETER)


def test_write_through_a_view_reaches_the_base() -> None:
    def write(linear: nn.Module, x: Tensor) -> Any:
        base = linear(x).clone()
        base[:, 1:].mul_(2.0)
        return base.exp()

    graph = capture_module(Calls(write), (torch.zeros(2, 4),), mode=Mode.INFERENCE)
    product, exponential = find(graph, "mul_"), find(graph, "exp")
    alias = graph.nodes[graph.producer[exponential.inputs[0]]]
    assert alias.op == "alias"
    assert product.outputs[0] in alias.inputs


def test_constants_keep_their_values() -> None:
    def count(linear: nn.Module, x: Tensor) -> Any:
        length = int(torch.arange(3).max().item())
        return linear(x)[:length] * torch.tensor([1.0, 2.0, 3.0, 4.0])

    graph = capture_module(Calls(count), (torch.zeros(5, 4),), mode=Mode.TRAINING)
    assert graph.outputs_of(find(graph, "mul"))[0].shape == (2, 4)


def test_workspaces_may_hold_activations() -> None:
    def collect(linear: nn.Module, x: Tensor) -> Any:
        buffer = torch.zeros(2, 8)
        buffer[:, :4] = linear(x)
        return buffer

    graph = capture_module(Calls(collect), (torch.zeros(2, 4),), mode=Mode.TRAINING)
    assert graph.storage_bytes(Role.GRADIENT) == 4 * 20


@pytest.mark.parametrize(
    "function",
    [
        lambda linear, x: linear(x) if x.sum() > 0 else x,
        lambda linear, x: linear(x) * x.mean().item(),
        lambda linear, x: linear(x)[x[:, 0] > 0],
        lambda linear, x: torch.from_numpy(linear(x).detach().numpy()),
    ],
    ids=["branch", "item", "boolean index", "numpy"],
)
def test_dependence_on_data_is_refused_with_the_reason(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match="value"):
        capture_module(Calls(function), (torch.zeros(2, 4),), mode=Mode.INFERENCE)


def test_failing_module_is_refused_with_its_own_words() -> None:
    with pytest.raises(CaptureError, match="reduction dim"):
        capture_module(nn.Linear(3, 2), (torch.zeros(2, 4),), mode=Mode.INFERENCE)


@pytest.mark.parametrize(
    "error", [RuntimeError("no metadata for this set"), NotImplementedError("choose a head first")]
)
def test_what_a_module_raises_needs_no_values(error: Exception) -> None:
    def fails(linear: nn.Module, x: Tensor) -> Tensor:
        raise error

    with pytest.raises(CaptureError, match=str(error)) as caught:
        capture_module(Calls(fails), (torch.zeros(2, 4),), mode=Mode.INFERENCE)
    assert "needs the values" not in caught.value.message


def test_an_operator_that_has_no_shapes_is_named() -> None:
    with pytest.raises(CaptureError, match=r"does not tell without running it.*bincount"):
        capture_module(
            Calls(lambda linear, x: torch.bincount(x.long().flatten())),
            (torch.zeros(2, 4),),
            mode=Mode.INFERENCE,
        )


def test_capture_leaves_attention_outside_alone() -> None:
    x = torch.rand(1, 2, 6, 4)
    capture_module(small_cnn(), (IMAGES,), mode=Mode.INFERENCE)
    expected = torch.softmax(x @ x.transpose(-2, -1) / 2, dim=-1) @ x
    result = functional.scaled_dot_product_attention(x, x, x)
    torch.testing.assert_close(result, expected)


def test_fused_optimizer_is_refused_with_a_way_out() -> None:
    with pytest.raises(CaptureError, match="foreach=True"):
        capture_module(
            small_cnn(), (IMAGES,), mode=Mode.TRAINING,
            optimizer=lambda params: torch.optim.AdamW(params, fused=True),
        )  # fmt: skip


def test_threads_capture_at_the_same_time() -> None:
    alone = capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING).content_hash

    def hashed(_: int) -> str:
        return capture_module(small_cnn(), (IMAGES,), mode=Mode.TRAINING).content_hash

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(hashed, range(12))) == {alone}
    assert torch.backends.mha.get_fastpath_enabled()
