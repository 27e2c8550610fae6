"""Operators of a real step on the CPU, joined to the graph of the same step."""

import torch
from torch import nn

from perfmodel.capture.program import make_program
from perfmodel.capture.torch import capture
from perfmodel.profilers.operators.dispatched import (
    is_composite,
    join_operators,
    profile_operators,
)
from perfmodel.types import Mode, Phase


def tiny(mode: Mode):  # type: ignore[no-untyped-def]
    module = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
    return make_program(
        module, (torch.randn(16, 64),), mode=mode, loss=lambda out: out.square().mean()
    )


def test_composites_are_told_from_operators_of_the_dispatcher() -> None:
    # linear, conv2d and matmul only call addmm, convolution and bmm.
    assert all(is_composite(f"aten::{op}") for op in ("linear", "conv2d", "matmul", "einsum"))
    assert not any(is_composite(f"aten::{op}") for op in ("addmm", "convolution", "bmm", "add"))
    assert not is_composite("nosuch::thing")


def test_inference_of_two_layers_is_five_calls() -> None:
    program = tiny(Mode.INFERENCE)
    program.step()
    events = profile_operators(program.step, steps=1)[0]
    # Each linear layer transposes its weight, then multiplies and adds.
    assert [event.op for event in events] == ["t", "addmm", "relu", "t", "addmm"]
    assert events[1].shapes == ((96,), (16, 64), (64, 96))
    assert all(event.time_s > 0 for event in events)


def test_a_training_step_joins_to_its_graph() -> None:
    program = tiny(Mode.TRAINING)
    program.step()
    # Interrupted, a step of 0.2 ms is told by its longest operator: the best of three counts.
    profiled = [profile_operators(program.step, steps=3) for _ in range(3)]
    graph = capture(program)
    joined = max(
        (join_operators(graph, series) for series in profiled), key=lambda one: one.joined_share
    )
    assert joined.joined_share > 0.9
    records = joined.for_workload("w" * 32)
    products = [r for r in records if r.op in ("addmm", "mm")]
    # Two forward products; backward two for the weights and one for the inner activations.
    assert [r.phase for r in products].count(Phase.FORWARD) == 2
    assert [r.phase for r in products].count(Phase.BACKWARD) == 3
    assert all(graph.nodes[r.node].op == r.op for r in records)
    assert sum(r.time_s for r in records) <= joined.total_s * 1.5


def test_what_is_not_in_the_graph_is_reported_and_lowers_the_share() -> None:
    program = tiny(Mode.INFERENCE)
    graph = capture(program)

    def step() -> None:
        program.step()
        torch.linalg.qr(torch.ones(200, 200))

    step()
    joined = join_operators(graph, profile_operators(step, steps=1))
    assert "linalg_qr" in joined.unjoined_s
    assert joined.joined_share < 1.0
    assert len(joined.times_s) == len(graph.nodes)
