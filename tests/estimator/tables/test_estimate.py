from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthetic_workloads import mlp

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError, UnknownAcceleratorError, UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator, PreparedJob
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.tables.estimates import answer_cell, answer_from_memory, on_one_of_each
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.memory.memory_profile import memory_profile
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode, Phase, Precision, Role


def _ask(estimator: Estimator, placement: Any = "A10", **job: Any) -> Estimate:
    asked = Job(**{"model": "zoo/one", "batch_size": 8, **job})
    return estimator.estimate(asked, parse_placement(placement))


def test_one_accelerator_answers_as_the_model_does(estimator: Estimator) -> None:
    answer = _ask(estimator)
    # 8 samples take 8 us: 1e6 samples/s; the interval of the time turned upside down.
    assert answer.step_time_s == pytest.approx(8e-6)
    assert answer.throughput.samples_per_second == pytest.approx(1e6)
    assert answer.throughput.low == pytest.approx(1e6 / 1.25)
    assert answer.throughput.high == pytest.approx(1e6 / 0.8)
    assert answer.throughput.tokens_per_second == pytest.approx(1e7)
    assert answer.basis is Basis.INTERPOLATED
    assert answer.nearest == ("zoo/one on A10",)
    assert answer.model_version == "counting/1"
    assert answer.warnings == ()


def test_the_breakdown_adds_up_to_the_step(estimator: Estimator) -> None:
    answer = _ask(estimator, "8xA10")
    parts = answer.breakdown
    total = parts.compute_s + parts.exposed_communication_s + parts.input_stall_s + parts.overhead_s
    assert total == answer.step_time_s


def test_replicas_of_inference_do_not_communicate(estimator: Estimator) -> None:
    one, eight = _ask(estimator, "A10"), _ask(estimator, "8xA10")
    assert eight.step_time_s == one.step_time_s
    assert eight.throughput.samples_per_second == 8 * one.throughput.samples_per_second
    assert eight.breakdown.exposed_communication_s == eight.sync_time_s == 0
    assert eight.basis is Basis.INTERPOLATED


def test_however_the_same_accelerators_are_written_the_answer_is_one(estimator: Estimator) -> None:
    assert _ask(estimator, "4xA10") == _ask(
        estimator, {"nodes": [{"accelerator": "A10", "count": 4}]}
    )


def test_a_mixed_placement_trains_at_the_pace_of_the_slowest(estimator: Estimator) -> None:
    # H100: 4 us, A10: 8 us; three accelerators do 3 * 8 samples in 8 us.
    answer = _ask(estimator, "2xH100-SXM5-80GB+A10", mode=Mode.TRAINING)
    assert answer.step_time_s == pytest.approx(8e-6)
    assert answer.throughput.samples_per_second == pytest.approx(3 * 8 / 8e-6)


def test_accumulation_multiplies_the_samples_of_a_step(estimator: Estimator) -> None:
    answer = _ask(estimator, mode=Mode.TRAINING, accumulation_steps=4)
    assert answer.step_time_s == pytest.approx(4 * 8e-6)
    assert answer.throughput.samples_per_second == pytest.approx(1e6)


def test_a_step_that_does_not_fit_is_answered_with_a_warning(estimator: Estimator) -> None:
    # 1e9 rows of 64 floats are 256 GB; an A10 has 24.
    answer = _ask(estimator, batch_size=10**9)
    assert not answer.memory.fits
    assert any("more memory" in text for text in answer.warnings)


def test_out_of_distribution_and_warnings_come_through(estimator: Estimator) -> None:
    answer = _ask(estimator, "MI300X")
    assert answer.out_of_distribution
    assert answer.warnings == ("told",)


def test_a_job_is_captured_and_predicted_once(
    estimator: Estimator, graphs: Any, model: Any
) -> None:
    for count in (1, 2, 3):
        _ask(estimator, f"{count}xA10")
    assert graphs.asked == ["zoo/one"]
    # With the ten other cards of its chip.
    assert model.calls == [11]


def test_answers_from_memory_equal_the_first(estimator: Estimator) -> None:
    first = _ask(estimator)
    prepared = estimator.core.prepared(Job(model="zoo/one", batch_size=8))
    assert prepared is not None
    placement = estimator.core.resolve(parse_placement("A10"))
    assert answer_from_memory(estimator.core, prepared, placement) == first
    unseen = estimator.core.resolve(parse_placement("L4"))
    assert answer_from_memory(estimator.core, prepared, unseen) is None


def test_threads_get_the_same_answers(estimator: Estimator) -> None:
    def ask(number: int) -> Estimate:
        return _ask(estimator, f"{1 + number % 4}xA10", batch_size=1 + number % 5)

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(200)))
    assert together == [ask(number) for number in range(200)]


def test_names_that_nobody_knows_are_refused(estimator: Estimator) -> None:
    with pytest.raises(UnknownModelError) as model_error:
        _ask(estimator, model="zoo/on")
    assert model_error.value.did_you_mean[0] == "zoo/one"
    with pytest.raises(UnknownAcceleratorError) as error:
        _ask(estimator, "A10+A1000000")
    assert error.value.pointer == "/placement/nodes/1/accelerator"


def test_operators_of_an_unknown_structure_are_not_split(estimator: Estimator) -> None:
    placement = parse_placement(
        {"nodes": [{"accelerator": "A10", "count": 4}], "plan": {"tensor": 4}}
    )
    with pytest.raises(InvalidPlacementError, match="transformer layers"):
        estimator.estimate(Job(model="zoo/two", mode=Mode.TRAINING, batch_size=8), placement)
    with pytest.raises(InvalidPlacementError, match="inference"):
        estimator.estimate(Job(model="zoo/one"), placement)


def test_experts_are_spread_only_where_there_are_some(estimator: Estimator) -> None:
    dense = Job(
        model="zoo/megatron-gpt", mode=Mode.TRAINING, batch_size=2, precision=Precision.FP16
    )
    with pytest.raises(InvalidPlacementError, match="has none") as error:
        estimator.estimate(dense, parse_placement("4xA10 ep=2"))
    assert (error.value.pointer, error.value.allowed) == ("/placement/plan/expert", ("1",))


def test_any_graph_may_be_cut_into_stages(estimator: Estimator) -> None:
    job = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000, accumulation_steps=8)
    one = estimator.estimate(job, parse_placement("A10")).step_time_s
    staged = parse_placement(
        {"nodes": [{"accelerator": "A10", "count": 4}], "plan": {"pipeline": 4}}
    )
    # Four stages and eight micro-batches: at best 11 slots of a quarter instead of 8 whole ones.
    found = estimator.estimate(job, staged).step_time_s
    assert 11 / 32 * one < found < one


def test_a_model_that_answers_nan_is_an_error_not_an_answer(
    estimator: Estimator, model: Any
) -> None:
    model.fails_on = "T4"
    with pytest.raises(ArithmeticError, match="counting/1"):
        _ask(estimator, "T4")


def test_the_key_of_a_job_depends_on_every_field() -> None:
    base = Job(model="zoo/one", batch_size=8)
    assert base.reference == Job(model="zoo/one", batch_size=8, model_kwargs={}).reference
    others = [
        Job(model="zoo/one", batch_size=9),
        Job(model="zoo/one", batch_size=8, mode=Mode.TRAINING),
        Job(model="zoo/one", batch_size=8, model_kwargs={"depth": 2}),
        Job(model="zoo/one", batch_size=8, software={"torch": "2.9"}),
        Job(graph="zoo/one", batch_size=8),
    ]
    assert len({job.reference for job in [base, *others]}) == 6


def test_the_capture_is_not_asked_for_what_leaves_the_step_alone() -> None:
    asked: list[Job] = []

    class Recorder:
        def step(self, job: Job) -> CapturedStep:
            asked.append(job)
            return CapturedStep(graph=mlp(job.batch_size, [8, 8], "relu", training=True))

    estimator = Estimator(
        accelerators=Catalog.default(), model=AnalyticalModel(), graphs=Recorder()
    )
    plain = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=8)
    prepared = estimator.core.prepare(replace(plain, input={"cpu_s": 1e-3}))
    assert asked == [plain]
    assert prepared.job.input == {"cpu_s": 1e-3}


def _unfused_attention() -> Graph:
    """Return scores and softmax of attention, then a large tensor while they wait."""

    def tensor(shape: tuple[int, ...], storage: int, role: Role = Role.ACTIVATION) -> Tensor:
        return Tensor(shape=shape, dtype="float32", role=role, storage=storage)

    def node(op: str, inputs: tuple[int, ...], output: int, phase: Phase = Phase.FORWARD) -> Node:
        return Node(op=op, phase=phase, inputs=inputs, outputs=(output,))

    return Graph(
        nodes=(
            node("bmm", (0,), 1),
            node("_softmax", (1,), 2),
            node("bmm", (2, 0), 3),
            node("relu", (3,), 4),
            node("_softmax_backward_data", (3, 2), 5, Phase.BACKWARD),
        ),
        tensors=(
            tensor((2, 300, 4), 0, Role.INPUT), tensor((2, 300, 300), 1),
            tensor((2, 300, 300), 2), tensor((2, 300, 4), 3), tensor((2, 300, 4000), 4),
            tensor((2, 300, 4), 5),
        ),
    )  # fmt: skip


def test_selective_checkpointing_takes_the_time_of_what_writes_matrices() -> None:
    class Attention:
        def step(self, job: Job) -> CapturedStep:
            return CapturedStep(graph=_unfused_attention(), micro_batches=job.accumulation_steps)

    estimator = Estimator(
        accelerators=Catalog.default(), model=AnalyticalModel(), graphs=Attention()
    )
    job = Job(model="zoo/two", mode=Mode.TRAINING)
    plain, again = (
        estimator.estimate(one, parse_placement("A10")).step_time_s
        for one in (job, replace(job, selective_checkpointing=True))
    )
    # The first product and the softmax run twice; all wait for the memory.
    workload = estimator.core.prepare(job).on(Catalog.default().get("A10"))
    roofline_s = node_roofline(workload).roofline_s
    assert again / plain == pytest.approx(1 + roofline_s[:2].sum() / roofline_s.sum())
    told = estimator.explain(replace(job, selective_checkpointing=True), parse_placement("A10"))
    assert told.contributions[-1].name == "attention computed again"
    assert told.contributions[-1].factor == pytest.approx(again / plain)


def test_selective_checkpointing_reaches_the_memory() -> None:
    graph = _unfused_attention()
    job = Job(model="zoo/two", mode=Mode.TRAINING)
    for selective in (False, True):
        chosen = replace(job, selective_checkpointing=selective)
        found = PreparedJob(job=chosen, key="", step=CapturedStep(graph=graph)).memory_profile
        wanted = memory_profile(graph, selective_checkpointing=selective)
        np.testing.assert_array_equal(found.activation_corners, wanted.activation_corners)
    plain = memory_profile(graph).activation_corners.max()
    assert found.activation_corners.max() < plain


def test_a_cpu_alone_is_answered_where_cores_are_not_shared_evenly(estimator: Estimator) -> None:
    prepared = estimator.core.prepare(Job(model="zoo/one", mode=Mode.TRAINING, batch_size=8))
    both = estimator.core.resolve(parse_placement("2xEPYC-9654 cores=5"))
    # Whole cores alone: 2 of the 5 for each of the two.
    alone = answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement("EPYC-9654 cores=2"))
    )
    assert on_one_of_each(estimator.core, prepared, both) == [alone]
