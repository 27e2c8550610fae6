from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InvalidInputError, StoreError, UnknownGraphError
from perfmodel.estimator import CapturedStep
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.store.state.database import Database
from perfmodel.types import Compiler, Mode, Precision

Product = Callable[[int], Graph]


class Counter:
    """Captures a product and counts how often."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.count = 0

    def __call__(self, job: Job) -> CapturedStep:
        self.count += 1
        time.sleep(0.02)
        return CapturedStep(graph=self.product(job.batch_size), tokens_per_sample=7)


@pytest.fixture
def capture(product: Product) -> Counter:
    return Counter(product)


def test_a_capture_outlives_the_process(tmp_path: Path, capture: Counter) -> None:
    url = f"sqlite:///{tmp_path}/graphs.db"
    job = Job(model="zoo/one", batch_size=8)
    first = GraphLibrary(capture=capture, database=Database(url)).step(job)
    again = GraphLibrary(capture=capture, database=Database(url)).step(job)
    assert capture.count == 1
    assert again.graph.content_hash == first.graph.content_hash
    assert replace(again.graph).content_hash == first.graph.content_hash
    assert again.tokens_per_sample == 7


def test_what_is_no_part_of_the_program_asks_for_no_capture(capture: Counter) -> None:
    library = GraphLibrary(capture=capture, database=Database("sqlite://"))
    asked: list[dict[str, Any]] = [
        {}, {"precision": Precision.TF32}, {"compiler": Compiler.INDUCTOR},
        {"software": {"torch": "2.1"}}, {"optimizer": "adamw"}, {"activation_checkpointing": True},
    ]  # fmt: skip
    steps = [library.step(Job(model="zoo/one", batch_size=4, **more)) for more in asked]
    assert capture.count == 1
    assert len({step.graph.content_hash for step in steps}) == 1
    for more in ({"mode": Mode.TRAINING}, {"precision": Precision.AMP_FP16}, {"batch_size": 8}):
        stated: dict[str, Any] = {"batch_size": 4, **more}
        library.step(Job(model="zoo/one", **stated))
    library.step(Job(model="zoo/one", batch_size=4, mode=Mode.TRAINING, optimizer="adamw"))
    assert capture.count == 5


@pytest.mark.parametrize("mode", list(Mode))
def test_jobs_of_one_view_have_one_graph(mode: Mode) -> None:
    for precisions in ((Precision.FP32, Precision.TF32), (Precision.BF16, Precision.FP8)):
        jobs = [
            Job(model="zoo/mlp", mode=mode, batch_size=4, precision=precision,
                compiler=compiler, software=software)
            for precision, compiler, software in zip(
                precisions, (Compiler.EAGER, Compiler.INDUCTOR), ({}, {"torch": "2.1"}), strict=True
            )
        ]  # fmt: skip
        graphs = [capture_in_process(job).graph for job in jobs]
        assert to_json(graphs[0]) == to_json(graphs[1])


def test_json_that_comes_with_a_capture_is_what_is_kept(tmp_path: Path, product: Product) -> None:
    graph = product(4)
    step = CapturedStep(graph=graph, canonical=to_json(graph))
    database = Database(f"sqlite:///{tmp_path}/graphs.db")
    kept = GraphLibrary(capture=lambda _: step, database=database).step(Job(model="zoo/one"))
    assert kept.canonical is None
    assert database.graph(graph.content_hash) == step.canonical


def test_equal_jobs_at_the_same_time_are_captured_once(capture: Counter) -> None:
    library = GraphLibrary(capture=capture, database=Database("sqlite://"))
    with ThreadPoolExecutor(8) as pool:
        steps = list(pool.map(lambda _: library.step(Job(model="zoo/one")), range(16)))
    assert capture.count == 1
    assert len({step.graph.content_hash for step in steps}) == 1


def test_a_registered_graph_is_found_by_its_hash(product: Product, capture: Counter) -> None:
    library = GraphLibrary(capture=capture, database=Database("sqlite://"))
    graph = product(4)
    assert library.register(graph, mode=Mode.INFERENCE, batch_size=4, tokens_per_sample=3)
    assert not library.register(graph, mode=Mode.INFERENCE, batch_size=4)
    step = library.step(Job(graph=graph.content_hash, batch_size=4))
    assert step.graph.content_hash == graph.content_hash
    assert step.tokens_per_sample == 3
    assert capture.count == 0


def test_a_registered_graph_is_answered_in_the_precision_asked_for(
    product: Product, capture: Counter
) -> None:
    library = GraphLibrary(capture=capture, database=Database("sqlite://"))
    graph = product(4)
    library.register(graph, mode=Mode.INFERENCE, batch_size=4)
    own = library.step(Job(graph=graph.content_hash, batch_size=4))
    half = library.step(Job(graph=graph.content_hash, batch_size=4, precision=Precision.FP16))
    assert {tensor.dtype for tensor in own.graph.tensors} == {"float32"}
    assert own.warnings == ()
    assert {tensor.dtype for tensor in half.graph.tensors} == {"float16"}
    assert "another precision than fp16" in half.warnings[0]


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"batch_size": 5}, "/job/batch_size"),
        ({"batch_size": 4, "mode": Mode.TRAINING}, "/job/mode"),
        ({"batch_size": 4, "accumulation_steps": 2}, "/job/accumulation_steps"),
    ],
)
def test_a_registered_graph_is_what_it_was_captured_as(
    product: Product, capture: Counter, asked: dict[str, object], pointer: str
) -> None:
    library = GraphLibrary(capture=capture, database=Database("sqlite://"))
    graph = product(4)
    library.register(graph, mode=Mode.INFERENCE, batch_size=4)
    with pytest.raises(InvalidInputError) as caught:
        library.step(Job(graph=graph.content_hash, **asked))  # type: ignore[arg-type]
    assert caught.value.pointer == pointer


def test_a_hash_that_nobody_registered_is_unknown(capture: Counter, product: Product) -> None:
    library = GraphLibrary(capture=capture, database=Database("sqlite://"))
    graph = product(4)
    library.register(graph, mode=Mode.INFERENCE, batch_size=4)
    misspelt = graph.content_hash[:-1] + ("0" if graph.content_hash[-1] != "0" else "1")
    with pytest.raises(UnknownGraphError) as caught:
        library.step(Job(graph=misspelt, batch_size=4))
    # Others may have registered what is like it.
    assert caught.value.did_you_mean == [] and graph.content_hash not in caught.value.message


def test_without_a_database_jobs_are_captured_and_nothing_is_registered(
    capture: Counter, product: Product
) -> None:
    library = GraphLibrary(capture=capture)
    assert library.step(Job(model="zoo/one")).tokens_per_sample == 7
    with pytest.raises(StoreError, match="no database"):
        library.register(product(1), mode=Mode.INFERENCE, batch_size=1)
    with pytest.raises(UnknownGraphError):
        library.step(Job(graph="ab"))


def test_a_broken_database_does_not_stop_captures(tmp_path: Path, capture: Counter) -> None:
    database = Database(f"sqlite:///{tmp_path}/graphs.db")
    library = GraphLibrary(capture=capture, database=database)
    database.close()
    (tmp_path / "graphs.db").write_bytes(b"no database at all" * 100)
    for name in ("graphs.db-wal", "graphs.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert library.step(Job(model="zoo/one")).tokens_per_sample == 7
