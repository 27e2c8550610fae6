from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from synthetic_workloads import mlp

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import CapturedStep
from perfmodel.estimator.jobs import graph_library
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.jobs.step_facts import StepFacts, facts_from, facts_to_keep
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.features.roofline import node_roofline
from perfmodel.features.steps.step import Step
from perfmodel.graph.canonical import from_json, to_json
from perfmodel.graph.ir import Graph, Node, Tensor, is_unread
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.placement.memory.memory_profile import memory_profile
from perfmodel.store.state.database import Database
from perfmodel.types import Mode, Phase, Role

JOB = Job(model="zoo/one", mode=Mode.TRAINING, batch_size=8)


@pytest.fixture
def graph() -> Graph:
    return mlp(8, [64, 32, 32, 16], "relu", training=True)


def parts(facts: StepFacts) -> dict[str, Any]:
    """Return every number and text of some facts."""
    found: dict[str, Any] = {"unpriced": dict(facts.unpriced)}
    for name in ("sketch", "work", "profile", "memory"):
        part = getattr(facts, name)
        found |= {f"{name}.{field.name}": getattr(part, field.name) for field in fields(part)}
    return found


def assert_same(some: StepFacts, others: StepFacts) -> None:
    """Compare facts bit by bit."""
    one, other = parts(some), parts(others)
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert type(value) is type(other[name]), name
        if isinstance(value, np.ndarray):
            assert (value.dtype, value.shape) == (other[name].dtype, other[name].shape), name
            assert value.tobytes() == other[name].tobytes(), name
        else:
            assert value == other[name], name


def unpriced_graph() -> Graph:
    tensors = tuple(
        Tensor(shape=(4,), dtype="float32", role=role, storage=i)
        for i, role in enumerate((Role.INPUT, Role.ACTIVATION))
    )
    node = Node(op="no_such_operator", phase=Phase.FORWARD, inputs=(0,), outputs=(1,))
    return Graph(nodes=(node,), tensors=tensors)


@pytest.mark.parametrize(
    "make", [lambda: mlp(8, [64, 32, 16], "relu", training=True), unpriced_graph]
)
def test_facts_come_back_bit_for_bit(make: Callable[[], Graph]) -> None:
    made = make()
    facts = StepFacts.of(made)
    packed = facts_to_keep(made, to_json(made))
    assert packed == facts.to_bytes()
    kept = facts_from(packed)
    assert kept is not None
    assert_same(kept, facts)
    assert_same(StepFacts.of(from_json(to_json(make()))), facts)


def test_answers_by_facts_are_those_by_the_graph(graph: Graph) -> None:
    facts = facts_from(facts_to_keep(graph, to_json(graph)))
    assert facts is not None
    unread = facts.graph(lambda: from_json(to_json(graph)))
    accelerator = Catalog.default().get("A100-SXM4-80GB")

    def on(known: Graph) -> Workload:
        return Workload(graph=known, accelerator=accelerator, mode=Mode.TRAINING, batch_size=8)

    model = AnalyticalModel()
    assert model.predict([on(unread)]) == model.predict([on(graph)])
    for field in fields(node_roofline(on(graph))):
        name = field.name
        expected = getattr(node_roofline(on(graph)), name)
        assert getattr(node_roofline(on(unread)), name).tobytes() == expected.tobytes()
    assert Step.of(on(unread)).sketch is facts.sketch
    step = CapturedStep(graph=unread, facts=facts)
    prepared = PreparedJob(job=JOB, key=JOB.reference, step=step)
    prepared.work_out()
    other = PreparedJob(job=JOB, key=JOB.reference, step=CapturedStep(graph=graph))
    assert prepared.warnings == other.warnings
    assert prepared.step.bucket_numbers == other.step.bucket_numbers
    # Nothing of it asked for a node.
    assert is_unread(unread)
    assert len(unread.nodes) == len(graph.nodes)


def test_selective_checkpointing_asks_the_graph(graph: Graph) -> None:
    facts = StepFacts.of(graph)
    step = CapturedStep(graph=facts.graph(lambda: graph), facts=facts)
    job = replace(JOB, activation_checkpointing=True, selective_checkpointing=True)
    prepared = PreparedJob(job=job, key=job.reference, step=step)
    expected = memory_profile(graph, selective_checkpointing=True)
    assert prepared.memory_profile.peak_tensor_bytes == expected.peak_tensor_bytes


def test_a_graph_that_cannot_be_read_back_has_no_facts_to_keep() -> None:
    # 2^61 elements: more than a graph that comes from anybody may have.
    tensor = Tensor(shape=(1 << 61,), dtype="float32", role=Role.INPUT, storage=0)
    large = Graph(nodes=(), tensors=(tensor,))
    assert facts_to_keep(large, to_json(large)) is None


@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_damaged_facts_are_none(content: bytes | None) -> None:
    assert facts_from(content) is None


def library(path: Path, graph: Graph) -> GraphLibrary:
    """Return a library whose captures come as those of a capturing process."""

    def capture(job: Job) -> CapturedStep:
        canonical = to_json(graph)
        packed = facts_to_keep(graph, canonical)
        facts = facts_from(packed)
        assert facts is not None
        return CapturedStep(
            graph=facts.graph(lambda: from_json(canonical)),
            tokens_per_sample=3,
            canonical=canonical,
            packed_facts=packed,
            facts=facts,
        )

    return GraphLibrary(capture=capture, database=Database(f"sqlite:///{path}/graphs.db"))


def never(job: Job) -> CapturedStep:
    raise AssertionError("it was captured before")


def test_another_process_answers_without_reading_the_graph(tmp_path: Path, graph: Graph) -> None:
    first = library(tmp_path, graph).step(JOB)
    assert (first.canonical, first.packed_facts) == (None, None)
    other = GraphLibrary(capture=never, database=Database(f"sqlite:///{tmp_path}/graphs.db"))
    again = other.step(JOB)
    assert again.tokens_per_sample == 3
    for step in (first, again):
        assert step.facts is not None
        assert_same(step.facts, StepFacts.of(graph))
        assert step.graph.content_hash == graph.content_hash
        assert is_unread(step.graph)
        assert to_json(step.graph) == to_json(graph)


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM graph_facts", "UPDATE graph_facts SET content = x'00'",
     "UPDATE graph_facts SET version = 'another'"],
)  # fmt: skip
def test_facts_that_are_not_believed_are_worked_out_again(
    tmp_path: Path, graph: Graph, damage: str
) -> None:
    library(tmp_path, graph).step(JOB)
    database = Database(f"sqlite:///{tmp_path}/graphs.db")
    with database.connections.writing() as connection:
        connection.execute(text(damage))
    step = GraphLibrary(capture=never, database=database).step(JOB)
    assert_same(StepFacts.of(step.graph), StepFacts.of(graph))
    # Whoever comes next finds them.
    assert is_unread(GraphLibrary(capture=never, database=database).step(JOB).graph)


def test_a_damaged_graph_is_captured_again(tmp_path: Path, graph: Graph) -> None:
    known = library(tmp_path, graph)
    known.step(JOB)
    assert known.database is not None
    with known.database.connections.writing() as connection:
        connection.execute(text("UPDATE graphs SET canonical = x'00'"))
    assert to_json(known.step(JOB).graph) == to_json(graph)


def test_a_registered_graph_is_read_by_the_first_who_asks(tmp_path: Path, graph: Graph) -> None:
    database = Database(f"sqlite:///{tmp_path}/graphs.db")
    GraphLibrary(capture=never, database=database).register(
        graph, mode=Mode.TRAINING, batch_size=8, tokens_per_sample=5
    )
    job = Job(graph=graph.content_hash, mode=Mode.TRAINING, batch_size=8)
    first, second = (GraphLibrary(capture=never, database=database).step(job) for _ in range(2))
    assert (is_unread(first.graph), is_unread(second.graph)) == (False, True)
    assert second.facts is not None
    assert_same(second.facts, StepFacts.of(graph))
    assert (first.tokens_per_sample, second.tokens_per_sample) == (5, 5)


def test_other_code_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = graph_library.facts_version()
    package = tmp_path / "perfmodel"
    (package / "graph" / "cost").mkdir(parents=True)
    (package / "estimator").mkdir()
    formula = package / "graph" / "cost" / "matmul.py"
    formula.write_text("FLOPS = 2")
    monkeypatch.setattr(
        graph_library, "__file__", str(package / "estimator" / "jobs" / "graph_library.py")
    )
    versions = [graph_library.facts_version.__wrapped__()]
    formula.write_text("FLOPS = 3")
    versions.append(graph_library.facts_version.__wrapped__())
    (package / "estimator" / "facade.py").write_text("")
    versions.append(graph_library.facts_version.__wrapped__())
    assert versions[0] != versions[1] == versions[2]
    assert ours not in versions
