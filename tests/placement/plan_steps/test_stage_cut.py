from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.plan_steps.stage_cut import cut_graph, cut_step_s
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Plan
from perfmodel.types import Mode
from perfmodel.zoo.resolve import capture_job

PAIR = CommGroups.one_host([2], LinkClass.NVSWITCH, 3e11)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return capture_job(Job(model="timm/resnet18", mode=Mode.TRAINING, batch_size=8))


def test_stages_are_nearly_equal_and_hand_on_few_bytes(graph: Graph) -> None:
    cut = cut_graph(graph, 4)
    assert cut.share.sum() == pytest.approx(1.0)
    assert np.all(np.abs(cut.share - 0.25) < 0.15)
    # Between two blocks of a residual network one tensor is handed on: at most the
    # 8 x 64 x 56 x 56 numbers of the first blocks, in fp32.
    assert np.all((cut.cut_bytes > 0) & (cut.cut_bytes <= 2 * 4 * 8 * 64 * 56 * 56))
    assert cut.forward_share + cut.backward_share + cut.rest_share == pytest.approx(1.0)
    assert cut.backward_share > cut.forward_share > cut.rest_share


def test_one_stage_takes_the_step_of_one_accelerator(graph: Graph) -> None:
    assert cut_step_s(cut_graph(graph, 1), Plan(data=1), 0.5, 4, PAIR) == 0.5


def test_more_micro_batches_fill_the_pipeline(graph: Graph) -> None:
    cut, plan = cut_graph(graph, 2), Plan(data=1, pipeline=2)
    few, many = (cut_step_s(cut, plan, 1.0, count, PAIR) for count in (2, 64))
    # Two stages cannot take less than half, and with many micro-batches not much more.
    assert 0.5 < many < few < 1.0
    assert many < 0.65


def test_splits_of_operators_and_too_many_stages_are_refused(graph: Graph) -> None:
    cut = cut_graph(graph, 2)
    with pytest.raises(InvalidPlacementError, match="tensor parallelism needs") as refusal:
        cut_step_s(cut, Plan(data=1, tensor=2, pipeline=2), 1.0, 4, PAIR)
    assert refusal.value.pointer == "/placement/plan/tensor"
    with pytest.raises(InvalidPlacementError, match="ask for fewer"):
        cut_graph(graph, 10_000)
