from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from contextvars import copy_context
from dataclasses import replace

import pytest

from perfmodel.errors import CaptureBudgetError, InvalidInputError, UnknownModelError
from perfmodel.estimator.captures.capture_child import CaptureChild
from perfmodel.estimator.captures.capture_pool import CapturePool
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.capture_terms import (
    TERMS,
    CaptureBudget,
    CaptureTerms,
    terms_of_request,
)
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.step_facts import facts_to_keep
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import is_unread
from perfmodel.graph.job import Job
from perfmodel.json_values import MAX_COUNT
from perfmodel.types import Mode

pytest.importorskip("torch")

MLP = Job(model="zoo/mlp", batch_size=4, mode=Mode.TRAINING)
DEEP = Job(model="zoo/mlp", batch_size=4, mode=Mode.TRAINING, model_kwargs={"num_layers": 500})


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaptureChild]:
    started = CaptureChild()
    with pytest.MonkeyPatch.context() as patch:
        # As where nothing was compiled before: PyTorch finds no folder for it.
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("new")))
        patch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
        yield started
    started.close()


def captured(child: CaptureChild, job: Job) -> CapturedStep:
    return child.capture(job, CaptureBudget()).step


def test_a_child_captures_the_same_graph(child: CaptureChild) -> None:
    assert captured(child, MLP).graph.content_hash == capture_in_process(MLP).graph.content_hash


def test_a_child_sends_facts_and_leaves_the_graph_to_be_read(child: CaptureChild) -> None:
    step, expected = captured(child, MLP), capture_in_process(MLP).graph
    assert is_unread(step.graph)
    assert step.facts is not None
    assert step.facts.to_bytes() == step.packed_facts == facts_to_keep(expected, to_json(expected))
    assert step.canonical == to_json(step.graph) == to_json(expected)


def test_a_refusal_comes_back_whole(child: CaptureChild) -> None:
    with pytest.raises(UnknownModelError) as caught:
        captured(child, Job(model="zoo/mlq"))
    assert caught.value.pointer == "/job/model"
    assert "zoo/mlp" in caught.value.did_you_mean
    assert str(caught.value) == caught.value.message
    with pytest.raises(InvalidInputError):
        captured(child, Job(model="zoo/mlp", model_kwargs={"no_such_argument": 1}))


def test_a_capture_that_takes_too_long_is_given_up() -> None:
    # It takes so long that a clock is heard in time, however busy the machine.
    with closing(CaptureChild()) as hasty:
        with pytest.raises(CaptureBudgetError, match="took too long"):
            hasty.capture(DEEP, CaptureBudget(time_s=1e-4))
        assert hasty._child is None


def test_what_a_capture_took_is_told(child: CaptureChild) -> None:
    step, use = child.capture(replace(MLP, batch_size=64), CaptureBudget())
    assert use.nodes == len(step.graph.nodes)
    assert 0 < use.time_s < 60 and use.memory_bytes >= 0


def test_a_graph_of_more_operators_than_the_budget_is_refused(child: CaptureChild) -> None:
    job = replace(MLP, batch_size=65)
    with pytest.raises(CaptureBudgetError, match="more than 3 operators"):
        child.capture(job, CaptureBudget(nodes=3))
    assert len(captured(child, job).graph.nodes) > 3


def test_a_capture_that_needs_more_memory_than_the_budget_is_given_up() -> None:
    with closing(CaptureChild()) as small:
        with pytest.raises(CaptureBudgetError, match="memory"):
            small.capture(DEEP, CaptureBudget(memory_bytes=100_000))
        # The next one is captured as ever.
        assert captured(small, MLP).graph.nodes


def test_a_pool_captures_on_the_terms_of_the_request() -> None:
    pool = CapturePool(Turns(2))
    try:
        terms = CaptureTerms(caller="a", budget=CaptureBudget(nodes=3))
        context = copy_context()
        context.run(TERMS.set, terms)
        with pytest.raises(CaptureBudgetError):
            context.run(pool, MLP)
        # It was tried: the same is refused at once, more is tried again.
        with pytest.raises(CaptureBudgetError, match="tried lately"):
            context.run(pool, MLP)
        terms.budget = CaptureBudget(nodes=100_000)
        assert context.run(pool, MLP).graph.nodes
        assert [use.nodes for use in terms.uses] == [len(pool(MLP).graph.nodes)]
        assert terms_of_request().caller == ""
    finally:
        pool.close()


@pytest.mark.parametrize(
    "stated",
    ["time_s=61", "time_s=0", "time_s=-1", "time_s=nan", "hours=1", "", "time_s", "nodes=1e3"],
)
def test_a_budget_is_read_strictly(stated: str) -> None:
    with pytest.raises(InvalidInputError, match=r"at most|budget of captures states"):
        CaptureBudget().narrowed(stated)


def test_further_batch_sizes_are_as_if_captured(child: CaptureChild) -> None:
    for batch_size in (4, 5, 6, 7, 33):
        job = replace(MLP, batch_size=batch_size)
        assert captured(child, job).graph.content_hash == capture_in_process(job).graph.content_hash


def test_a_child_that_dies_is_replaced(child: CaptureChild) -> None:
    captured(child, MLP)
    assert child._child is not None
    os.kill(child._child.pid, signal.SIGKILL)
    child._child.wait()
    assert captured(child, MLP).graph.nodes


def test_a_job_that_cannot_be_read_ends_no_child(child: CaptureChild) -> None:
    captured(child, MLP)
    before = child._child
    with pytest.raises(InvalidInputError, match="batch_size must be"):
        captured(child, replace(MLP, batch_size=MAX_COUNT + 1))
    assert child._child is before
    assert captured(child, MLP).graph.nodes


def test_closing_ends_the_child(child: CaptureChild) -> None:
    captured(child, MLP)
    process = child._child
    assert process is not None
    child.close()
    assert process.poll() is not None
