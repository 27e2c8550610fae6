"""Slow paths: which operators take them, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.features.steps.slow_paths import (
    SLOW_PATHS,
    bytes_of_parts,
    slow_path_rates,
    slow_path_work,
)
from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor
from perfmodel.types import Phase, Precision, Role

SCORES, TURNS, PARTS, RECURSION, WEIGHTS = range(len(SLOW_PATHS))
NOTHING: Mapping[str, AttrValue] = MappingProxyType({})


def _graph(*calls: tuple[str, list[int], tuple[int, ...]], given: list[tuple[int, ...]]) -> Graph:
    """Operators one after the other; operands by number: what is given first, then results."""
    shapes = [*given, *(shape for _, _, shape in calls)]
    storages = list(range(len(given)))
    for i, (op, inputs, _) in enumerate(calls):
        storages.append(storages[inputs[0]] if op == "view" else len(given) + i)
    tensors = tuple(
        Tensor(
            shape=shape,
            dtype="float16",
            role=Role.INPUT if i < len(given) else Role.ACTIVATION,
            storage=storages[i],
        )
        for i, shape in enumerate(shapes)
    )
    nodes = tuple(
        Node(
            op=op, phase=Phase.FORWARD, inputs=tuple(inputs), outputs=(len(given) + i,),
            attrs=NOTHING,
        )
        for i, (op, inputs, _) in enumerate(calls)
    )  # fmt: skip
    return Graph(nodes=nodes, tensors=tensors)


def _work(sketch: StepSketch, op: str) -> np.ndarray:
    (row,) = (slow_path_work(sketch)[i] for i, name in enumerate(sketch.ops) if name == op)
    return np.asarray(row)


def _attention(shape: tuple[int, ...]) -> np.ndarray:
    graph = _graph(("scaled_dot_product_attention", [0, 1, 2], shape), given=[shape] * 3)
    return _work(step_sketch(graph), "scaled_dot_product_attention")


def test_attention_on_five_axes_writes_its_scores() -> None:
    # 2 samples x 4 windows x 3 heads, 49 queries and 49 keys each.
    work = _attention((2, 4, 3, 49, 32))
    assert work[SCORES] == pytest.approx(2 * 4 * 3 * 49 * 49, rel=1e-4)
    assert work[TURNS] == 0


def test_attention_on_four_axes_takes_a_fused_kernel() -> None:
    work = _attention((8, 3, 49, 32))
    assert work[SCORES] == work[TURNS] == 0


def test_every_attention_has_scores_that_its_parts_would_write() -> None:
    for shape in ((8, 3, 49, 32), (2, 4, 3, 49, 32)):
        assert _attention(shape)[PARTS] == pytest.approx(8 * 3 * 49 * 49, rel=1e-4)


def test_the_way_back_passes_half_as_much_again() -> None:
    shape = (8, 3, 49, 32)
    op = "scaled_dot_product_attention_backward"
    graph = _graph((op, [0, 1, 2, 3], shape), given=[shape] * 4)
    there = _attention(shape)[PARTS]
    assert _work(step_sketch(graph), op)[PARTS] == pytest.approx(1.5 * there, rel=1e-4)


@pytest.mark.parametrize("op", ["upsample_bilinear2d", "upsample_bicubic2d"])
def test_resampling_takes_a_turn_for_each_channel_of_each_sample(op: str) -> None:
    graph = _graph(("relu", [0], (2, 64, 7, 7)), (op, [1], (2, 64, 14, 14)), given=[(2, 64, 7, 7)])
    work = _work(step_sketch(graph), op)
    assert work[TURNS] == pytest.approx(2 * 64, rel=1e-4) and work[SCORES] == 0


def test_tokens_seen_as_an_image_take_the_other_kernel() -> None:
    graph = _graph(
        ("mm", [0, 1], (98, 64)),
        ("view", [2], (2, 64, 7, 7)),
        ("upsample_bilinear2d", [3], (2, 64, 14, 14)),
        given=[(98, 32), (32, 64)],
    )
    assert not _work(step_sketch(graph), "upsample_bilinear2d").any()


def test_nearest_neighbours_and_other_operators_take_no_slow_path() -> None:
    shape = (2, 64, 7, 7)
    graph = _graph(
        ("relu", [0], shape), ("upsample_nearest2d", [1], (2, 64, 14, 14)), given=[shape]
    )
    assert not slow_path_work(step_sketch(graph)).any()


@pytest.mark.parametrize(
    ("attrs", "steps", "reads"),
    [
        ({}, 50, 49),
        ({"batch_first": True}, 8, 7),
        ({"num_layers": 3}, 52, 3 * 49),
        ({"num_layers": 3, "bidirectional": True}, 150, 2 * 3 * 49),
        ({"batch_sizes": (8,) * 20}, 20, 19),
    ],
)
def test_steps_of_recurrent_layers_wait_and_read_their_weights_again(
    attrs: Mapping[str, AttrValue], steps: float, reads: float
) -> None:
    # 50 steps of 8 samples, or the other way round; a GRU of 64 units in half precision.
    x, weights, state = (50, 8, 32), [(192, 32), (192, 64)], (1, 8, 64)
    graph = _graph(("gru", [0, 1, 2, 3], (50, 8, 64)), given=[x, *weights, state])
    layer = replace(graph.nodes[0], attrs={"hidden_size": 64, **attrs})
    for op in ("gru", "gru_backward"):
        node = replace(layer, op=op)
        work = _work(step_sketch(Graph(nodes=(node,), tensors=graph.tensors)), op)
        assert work[RECURSION] == steps and work[WEIGHTS] == reads * 3 * 64 * 64 * 2


def test_a_recursion_waits_as_long_on_every_gpu() -> None:
    slow, fast = _rates(), _rates(bandwidth_bytes_per_s=2e12)
    assert slow[RECURSION] == fast[RECURSION] > 0
    assert fast[WEIGHTS] == pytest.approx(slow[WEIGHTS] / 2)


def _rates(**changes: object) -> list[float]:
    plain = {
        "gpu": True, "fused": False, "torch_version": 2.4, "bandwidth_bytes_per_s": 1e12,
        "parts_bytes": 0.0,
    }  # fmt: skip
    return slow_path_rates(**plain | changes)  # type: ignore[arg-type]


def test_full_precision_passes_four_times_the_bytes() -> None:
    half, full = _rates()[SCORES], _rates(torch_version=2.5)[SCORES]
    assert half == pytest.approx(8 / 0.85e12) and full == pytest.approx(4 * half)


def test_twice_the_bandwidth_halves_scores_and_leaves_turns() -> None:
    slow, fast = _rates(), _rates(bandwidth_bytes_per_s=2e12)
    assert fast[SCORES] == pytest.approx(slow[SCORES] / 2) and fast[TURNS] == slow[TURNS]


def test_a_compiler_passes_less_and_takes_no_turns() -> None:
    eager, fused = _rates(), _rates(fused=True)
    assert 0 < fused[SCORES] < eager[SCORES] and fused[TURNS] == 0 < eager[TURNS]


def test_other_processors_have_no_slow_paths() -> None:
    assert _rates(gpu=False, parts_bytes=28.0) == [0.0] * len(SLOW_PATHS)


def test_scores_are_written_by_the_parts_or_beside_a_fused_kernel_never_both() -> None:
    fused, parts = _rates(), _rates(parts_bytes=28.0)
    assert fused[SCORES] > 0 == fused[PARTS]
    assert parts[SCORES] == 0 and parts[PARTS] == pytest.approx(28 / 0.85e12)


def _bytes(
    precision: Precision, torch: str = "2.4.0", *, fused: bool = False, **said: str
) -> float:
    return bytes_of_parts(precision, {"torch": torch, **said}, fused=fused)


@pytest.mark.parametrize(
    ("precision", "passing"),
    [(Precision.FP16, 12), (Precision.FP32, 24), (Precision.TF32, 24), (Precision.AMP_BF16, 28)],
)
def test_pytorch_has_a_fused_kernel_of_attention_since_2(
    precision: Precision, passing: float
) -> None:
    assert _bytes(precision, "1.13.1") == passing and _bytes(precision, "2.0.1") == 0


def test_other_frameworks_have_none_unless_a_compiler_makes_one() -> None:
    of = {word: _bytes(Precision.FP16, framework=word) for word in ("tensorflow", "mxnet", "jax")}
    assert of == {"tensorflow": 12, "mxnet": 12, "jax": 0}
    assert _bytes(Precision.FP16, fused=True, framework="mxnet") == 0


def test_what_a_job_says_of_attention_goes_before_its_release() -> None:
    assert _bytes(Precision.FP16, "1.13.1", attention="fused") == 0
    assert _bytes(Precision.AMP_FP16, "2.4.0", attention="eager") == 28


def test_apex_leaves_the_softmax_in_half_precision() -> None:
    assert _bytes(Precision.AMP_FP16, "1.13.1", apex="O2") == 12
    assert _bytes(Precision.FP32, "1.13.1", apex="O2") == 24
