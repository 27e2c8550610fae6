from __future__ import annotations

import pytest
from synthetic_workloads import mlp

from perfmodel.estimator import CapturedStep
from perfmodel.estimator.captures import capture_worker
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the batch sizes that are captured; the graph is that of a small network."""
    sizes: list[int] = []

    def capture(job: Job, *, most_nodes: int) -> CapturedStep:
        sizes.append(job.batch_size)
        return CapturedStep(graph=network(job.batch_size), tokens_per_sample=5)

    monkeypatch.setattr(capture_worker, "capture_in_process", capture)
    return sizes


def network(batch_size: int) -> Graph:
    """Return a network that treats thirteen samples in a way of its own."""
    return mlp(batch_size, [64, 32, 32 if batch_size == 13 else 16], "relu", training=True)


def step(family: capture_worker.BatchFamily, batch_size: int) -> CapturedStep:
    return family.step(Job(model="zoo/some", batch_size=batch_size), 100)


def test_from_the_fourth_batch_size_on_graphs_are_derived(captured: list[int]) -> None:
    family = capture_worker.BatchFamily()
    for size in (32, 64, 16, 128, 256, 48):
        found = step(family, size)
        assert found.graph.content_hash == network(size).content_hash
        assert found.tokens_per_sample == 5
    assert captured == [32, 64, 16]


def test_what_is_no_multiple_of_those_that_were_seen_is_captured(captured: list[int]) -> None:
    family = capture_worker.BatchFamily()
    for size in (32, 64, 16, 24, 1, 80):
        step(family, size)
    assert captured == [32, 64, 16, 24, 1]


def test_one_sample_is_none_of_those_that_lines_go_through(captured: list[int]) -> None:
    family = capture_worker.BatchFamily()
    for size in (1, 1, 4, 8, 16, 12):
        step(family, size)
    assert captured == [1, 1, 4, 8, 16]


def test_where_there_is_no_line_everything_is_captured(captured: list[int]) -> None:
    family = capture_worker.BatchFamily()
    for size in (12, 13, 14, 28, 56):
        assert step(family, size).graph.content_hash == network(size).content_hash
    assert captured == [12, 13, 14, 28, 56]
