from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from work_done import calls_of

from perfmodel.graph.by_rule.fitting import rules_through
from perfmodel.graph.by_rule.ruled_graph import RuledGraph
from perfmodel.graph.by_rule.rules import BATCH
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Phase, Role
from perfmodel.zoo.resolve import capture_job

JOBS = [
    Job(model="timm/resnet18", mode=Mode.TRAINING, optimizer="adamw"),
    Job(model="timm/swin_tiny_patch4_window7_224", mode=Mode.INFERENCE),
    Job(model="zoo/transformer-translation", mode=Mode.TRAINING, sequence_length=16),
    Job(model="zoo/ncf", mode=Mode.TRAINING, optimizer="adam"),
    Job(model="zoo/lstm-lm", mode=Mode.TRAINING),
    Job(
        hf_config={"model_type": "mixtral", "num_hidden_layers": 1, "vocab_size": 100},
        mode=Mode.TRAINING,
        sequence_length=16,
    ),
]


def _family(job: Job, capture: Callable[[Job], Graph] = capture_job) -> RuledGraph | None:
    captured = {(size,): capture(replace(job, batch_size=size)) for size in (2, 3, 8)}
    return rules_through(captured, (BATCH,))


def _stencil(job: Job, capture: Callable[[Job], Graph] = capture_job) -> RuledGraph:
    found = _family(job, capture)
    assert found is not None
    return found


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.label)
def test_equals_a_true_capture(job: Job) -> None:
    stencil = _stencil(job)
    for batch_size in (5, 64):
        truth = capture_job(replace(job, batch_size=batch_size))
        answer = stencil.at(batch_size)
        assert answer.content_hash == truth.content_hash
        assert answer.tensors == truth.tensors
        assert answer.source == truth.source


def _toy(extent: int, attr: int) -> Graph:
    tensor = Tensor(shape=(extent,), dtype="float32", role=Role.INPUT, storage=0)
    result = Tensor(shape=(extent,), dtype="float32", role=Role.ACTIVATION, storage=1)
    node = Node(op="relu", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), attrs={"n": attr})
    return Graph(nodes=(node,), tensors=(tensor, result))


def test_numbers_off_the_line_have_none() -> None:
    assert _family(Job(), lambda job: _toy(job.batch_size**2, 0)) is None
    # An extent that shrinks would not stay one.
    assert _family(Job(), lambda job: _toy(max(0, 100 - job.batch_size), 0)) is None


def test_integer_attributes_lie_on_lines_too() -> None:
    stencil = _stencil(Job(), lambda job: _toy(3 * job.batch_size, 7 - job.batch_size))
    assert stencil.at(10).nodes[0].attrs["n"] == -3
    assert stencil.at(10).tensors[1].shape == (30,)


def test_a_structure_that_depends_on_the_batch_has_none() -> None:
    def capture(job: Job) -> Graph:
        graph = _toy(job.batch_size, 0)
        return graph if job.batch_size < 8 else Graph(nodes=(), tensors=graph.tensors)

    assert _family(Job(), capture) is None


def test_a_node_of_another_batch_takes_few_calls() -> None:
    family = _stencil(Job(model="timm/resnet50", mode=Mode.TRAINING))
    # Twenty-two a node.
    assert calls_of(lambda: family.at(20)) < 30 * len(family.at(10).nodes)
