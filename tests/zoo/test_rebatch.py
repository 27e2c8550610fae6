from __future__ import annotations

import statistics
import time
from dataclasses import replace

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Phase, Role
from perfmodel.zoo.rebatch import PROBES, BatchFamily
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


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.label)
def test_equals_a_true_capture(job: Job) -> None:
    captured: list[int] = []

    def counting(one: Job) -> Graph:
        captured.append(one.batch_size)
        return capture_job(one)

    family = BatchFamily(job, capture=counting)
    for batch_size in (1, 5, 64):
        truth = capture_job(replace(job, batch_size=batch_size))
        answer = family.at(batch_size)
        assert answer.content_hash == truth.content_hash
        assert answer.tensors == truth.tensors
        assert answer.source == truth.source
    assert 5 not in captured and 64 not in captured


def test_only_the_probes_are_captured() -> None:
    seen: list[int] = []

    def counting(job: Job) -> Graph:
        seen.append(job.batch_size)
        return capture_job(job)

    family = BatchFamily(Job(model="zoo/mlp"), capture=counting)
    for batch_size in (4, 16, 256, 4, 3):
        family.at(batch_size)
    assert seen == list(PROBES)


def _toy(extent: int, attr: int) -> Graph:
    tensor = Tensor(shape=(extent,), dtype="float32", role=Role.INPUT, storage=0)
    result = Tensor(shape=(extent,), dtype="float32", role=Role.ACTIVATION, storage=1)
    node = Node(op="relu", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), attrs={"n": attr})
    return Graph(nodes=(node,), tensors=(tensor, result))


def test_a_number_off_the_line_means_a_real_capture() -> None:
    family = BatchFamily(Job(), capture=lambda job: _toy(job.batch_size**2, 0))
    assert family.at(7).tensors[0].shape == (49,)


def test_an_extent_that_shrinks_means_a_real_capture() -> None:
    family = BatchFamily(Job(), capture=lambda job: _toy(max(0, 100 - job.batch_size), 0))
    assert family.at(200).tensors[0].shape == (0,)


def test_integer_attributes_lie_on_lines_too() -> None:
    family = BatchFamily(Job(), capture=lambda job: _toy(3 * job.batch_size, 7 - job.batch_size))
    assert family.at(10).nodes[0].attrs["n"] == -3
    assert family.at(10).tensors[1].shape == (30,)


def test_a_structure_that_depends_on_the_batch_means_a_real_capture() -> None:
    def capture(job: Job) -> Graph:
        graph = _toy(job.batch_size, 0)
        return graph if job.batch_size < 8 else Graph(nodes=(), tensors=graph.tensors)

    family = BatchFamily(Job(), capture=capture)
    assert len(family.at(9).nodes) == 0


def test_bad_batch_size() -> None:
    with pytest.raises(InvalidInputError) as caught:
        BatchFamily(Job(model="zoo/mlp")).at(0)
    assert caught.value.pointer == "/job/batch_size"


def test_a_thousand_nodes_take_milliseconds() -> None:
    family = BatchFamily(Job(model="timm/resnet50", mode=Mode.TRAINING))
    count = len(family.at(10).nodes)
    seconds = []
    for batch_size in range(20, 41):
        begin = time.process_time()
        family.at(batch_size)
        seconds.append(time.process_time() - begin)
    assert statistics.median(seconds) / count * 1000 <= 0.020
