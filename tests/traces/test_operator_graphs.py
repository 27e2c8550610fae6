"""Traced calls are made again on meta tensors, and only those that graphs price."""

from __future__ import annotations

import pytest

from perfmodel.graph.cost import cost_table
from perfmodel.traces.formats.kineto.arguments import kineto_arguments
from perfmodel.traces.operator_graphs import UncalledError, operator_graph
from perfmodel.traces.trace import OperatorArguments
from perfmodel.types import Phase

pytest.importorskip("torch")

F, H, S, L = "float", "c10::BFloat16", "Scalar", "ScalarList"


def _arguments(*inputs: tuple[list[int], str, str]) -> OperatorArguments:
    dims, types, values = zip(*inputs, strict=True)
    return kineto_arguments([list(dims), list(types), list(values), None])


def test_a_norm_of_one_kernel_is_one_node() -> None:
    given = _arguments(([4, 8], F, ""), ([], L, "[8]"), ([8], F, ""), ([], "", ""))
    apart = operator_graph("aten::rms_norm", given, Phase.FORWARD)
    (node,) = operator_graph("aten::rms_norm", given, Phase.FORWARD, is_one_kernel=True).nodes
    assert len(apart.nodes) > 3
    assert node.op == "_fused_rms_norm"


@pytest.mark.parametrize(
    ("name", "inputs", "nodes", "flops"),
    [
        # 4 x 8 x 16 multiply-adds, and as many additions of the bias as there are results.
        ("aten::addmm", [([16], F, ""), ([4, 8], F, ""), ([8, 16], F, ""), ([], S, "1"),
                         ([], S, "1")], ["addmm"], None),
        # With out=: the third tensor is written, not read.
        ("aten::mm", [([4, 8], H, ""), ([8, 16], H, ""), ([4, 16], H, "")], ["mm"], 2 * 4 * 8 * 16),
        # 6 x 6 pixels stay 6 x 6: 2 x 8 x 36 results of 3 x 9 multiply-adds.
        ("aten::convolution", [([2, 3, 6, 6], F, ""), ([8, 3, 3, 3], F, ""), ([], "", ""),
                               ([], L, "[1, 1]"), ([], L, "[1, 1]"), ([], L, "[1, 1]"),
                               ([], S, "False"), ([], L, "[0, 0]"), ([], S, "1")],
         ["convolution"], 2 * 2 * 8 * 36 * 27),
        ("aten::_to_copy", [([4, 8], F, ""), ([], S, "15"), ([], "", ""), ([], "", ""),
                            ([], "", ""), ([], S, "False"), ([], "", "")], ["_to_copy"], 0),
    ],
)  # fmt: skip
def test_calls_become_the_nodes_that_captures_have(
    name: str, inputs: list[tuple[list[int], str, str]], nodes: list[str], flops: float | None
) -> None:
    graph = operator_graph(name, _arguments(*inputs), Phase.FORWARD)
    assert [node.op for node in graph.nodes] == nodes
    assert flops is None or cost_table(graph).flops.sum() == flops
    assert not cost_table(graph).unpriced


def test_a_cast_has_the_type_that_the_trace_tells() -> None:
    inputs = [([4, 8], F, ""), ([], S, "15"), *[([], "", "")] * 5]
    graph = operator_graph("aten::_to_copy", _arguments(*inputs), Phase.BACKWARD)
    assert graph.outputs_of(graph.nodes[0])[0].dtype == "bfloat16"
    assert graph.nodes[0].phase is Phase.BACKWARD


_Q = ([2, 4, 8, 16], H, "")
_SUMS, _UNDEFINED, _NUMBER = ([2, 4, 8], F, ""), ([], "", ""), ([], S, "0")
_CAUSAL, _SCALE = ([], S, "True"), ([], S, "0.25")


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("flash_attention", [_Q, _Q, _Q, _NUMBER, _CAUSAL, ([], S, "False"), _SCALE]),
        ("flash_attention_for_cpu", [_Q, _Q, _Q, _NUMBER, _CAUSAL, _UNDEFINED, _SCALE]),
        ("efficient_attention", [_Q, _Q, _Q, _UNDEFINED, _CAUSAL, _NUMBER, _CAUSAL, _SCALE]),
        ("cudnn_attention", [_Q, _Q, _Q, _UNDEFINED, _CAUSAL, _NUMBER, _CAUSAL, ([], S, "False"),
                             _SCALE]),
        ("flash_attention_backward", [*[_Q] * 5, _SUMS, _UNDEFINED, _UNDEFINED, _NUMBER, _NUMBER,
                                      _NUMBER, _CAUSAL, _UNDEFINED, _UNDEFINED, _SCALE]),
        ("flash_attention_for_cpu_backward", [*[_Q] * 5, _SUMS, _NUMBER, _CAUSAL, _UNDEFINED,
                                              _SCALE]),
        ("efficient_attention_backward", [*[_Q] * 4, _UNDEFINED, _Q, _SUMS, _UNDEFINED, _UNDEFINED,
                                          _NUMBER, ([], L, "[True, True, True, False]"), _CAUSAL,
                                          _SCALE]),
    ],
)  # fmt: skip
def test_attention_of_every_device_is_one_operator(
    name: str, inputs: list[tuple[list[int], str, str]]
) -> None:
    """Called as it is, some of it would end the process."""
    graph = operator_graph(f"aten::_scaled_dot_product_{name}", _arguments(*inputs), Phase.FORWARD)
    # 2 x 4 heads of 1 + ... + 8 pairs; 16 wide are two products, and five backward.
    pairs, products = 8 * 36, 5 if name.endswith("backward") else 2
    assert cost_table(graph).flops.sum() == 2 * pairs * products * 16


@pytest.mark.parametrize(
    ("name", "inputs", "reason"),
    [
        ("aten::_scaled_dot_product_flash_attention", [_UNDEFINED, _Q, _Q, _NUMBER, _CAUSAL,
                                                       _UNDEFINED, _SCALE], "no tensor is told"),
        ("aten::convolution", [([2, 3, 6, 6], F, ""), ([8, 3, 3, 3], F, ""), *[([], "", "")] * 7],
         "keeps no values"),
        ("aten::mm", [([4, 8], F, ""), ([9, 16], F, "")], "torch refuses"),
        ("aten::mm", [([4, 8], "odd::Type", ""), ([8, 16], F, "")], "does not tell all types"),
        ("aten::mm", [([2**40] * 2, F, "")] * 2, "torch refuses"),
        ("aten::ones", [([], L, "[4]")], "given no tensor"),
        ("aten::save_to_file", [([4], F, "")], "no formula prices"),
        ("os::system", [([4], F, "")], "no formula prices"),
        ("aten::relu", [([4], F, ""), ([4], F, ""), ([4], F, "")], "no overload takes"),
        ("aten::sum", [([4], F, ""), ([], L, "__import__('os')"), ([], S, "False"), ([], "", "")],
         "is no value"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_again_says_why(
    name: str, inputs: list[tuple[list[int], str, str]], reason: str
) -> None:
    with pytest.raises(UncalledError, match=reason):
        operator_graph(name, _arguments(*inputs), Phase.FORWARD)


def test_numbers_that_say_how_a_result_lies_are_not_handed_over() -> None:
    """There is no such format of memory, and torch would end the process."""
    graph = operator_graph("aten::clone", _arguments(_Q, ([], S, "-1")), Phase.FORWARD)
    assert [node.op for node in graph.nodes] == ["clone"]


def test_without_shapes_nothing_is_called() -> None:
    with pytest.raises(UncalledError, match="record_shapes was off"):
        operator_graph("aten::mm", None, Phase.FORWARD)
