from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from perfmodel.errors import CaptureError, InvalidInputError, UnknownModelError
from perfmodel.estimator.jobs.capture import CaptureChild, capture_in_process
from perfmodel.estimator.jobs.step_facts import facts_to_keep
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import is_unread
from perfmodel.graph.job import Job
from perfmodel.types import Mode

pytest.importorskip("torch")

MLP = Job(model="zoo/mlp", batch_size=4, mode=Mode.TRAINING)


@pytest.fixture(scope="module")
def child() -> Iterator[CaptureChild]:
    started = CaptureChild()
    yield started
    started.close()


def test_a_child_captures_the_same_graph(child: CaptureChild) -> None:
    assert child(MLP).graph.content_hash == capture_in_process(MLP).graph.content_hash


def test_a_child_sends_facts_and_leaves_the_graph_to_be_read(child: CaptureChild) -> None:
    step, expected = child(MLP), capture_in_process(MLP).graph
    assert is_unread(step.graph)
    assert step.facts is not None
    assert step.facts.to_bytes() == step.packed_facts == facts_to_keep(expected, to_json(expected))
    assert step.canonical == to_json(step.graph) == to_json(expected)


def test_a_refusal_comes_back_whole(child: CaptureChild) -> None:
    with pytest.raises(UnknownModelError) as caught:
        child(Job(model="zoo/mlq"))
    assert caught.value.pointer == "/job/model"
    assert "zoo/mlp" in caught.value.did_you_mean
    assert str(caught.value) == caught.value.message
    with pytest.raises(InvalidInputError):
        child(Job(model="zoo/mlp", model_kwargs={"no_such_argument": 1}))


def test_a_capture_that_takes_too_long_is_given_up() -> None:
    hasty = CaptureChild(timeout_s=0.01)
    with pytest.raises(CaptureError, match="took too long"):
        hasty(MLP)
    assert hasty._child is None


def test_further_batch_sizes_are_as_if_captured(child: CaptureChild) -> None:
    for batch_size in (4, 5, 6, 7, 33):
        job = replace(MLP, batch_size=batch_size)
        assert child(job).graph.content_hash == capture_in_process(job).graph.content_hash


def test_a_child_that_dies_is_replaced(child: CaptureChild) -> None:
    child(MLP)
    assert child._child is not None
    os.kill(child._child.pid, signal.SIGKILL)
    child._child.wait()
    assert child(MLP).graph.nodes


def test_closing_ends_the_child(child: CaptureChild) -> None:
    child(MLP)
    process = child._child
    assert process is not None
    child.close()
    assert process.poll() is not None
