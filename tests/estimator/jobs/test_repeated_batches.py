"""Steps of many micro-batches are told from the graph of a few."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.jobs.repeated_batches import MOST_CAPTURED, captured_batches
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

pytest.importorskip("torch")


def _job(micro_batches: int) -> Job:
    return Job(
        model="zoo/megatron-gpt",
        model_kwargs={"num_layers": 2, "hidden_size": 128, "num_heads": 4, "vocab_size": 512},
        mode=Mode.TRAINING,
        batch_size=2,
        accumulation_steps=micro_batches,
        precision=Precision.BF16,
        optimizer="adam",
        sequence_length=64,
    )


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    library = GraphLibrary(capture=capture_in_process)
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=library)


def _captured_whole(job: Job) -> PreparedJob:
    return PreparedJob(job=job, key=job.reference, step=capture_in_process(job))


@pytest.mark.parametrize("micro_batches", [8, 16])
def test_many_micro_batches_take_as_long_as_their_own_graph_says(
    estimator: Estimator, micro_batches: int
) -> None:
    job = _job(micro_batches)
    whole, told = _captured_whole(job), estimator.core.prepare(job)
    assert len(told.step.graph.nodes) < len(whole.step.graph.nodes)
    spec = estimator.accelerators.get("A100-SXM4-80GB")
    [by_graph] = estimator.core.model.predict([whole.on(spec)])
    [by_few] = estimator.core.predictions([(told, spec)])
    # Both with the equations for plans, which know the number of micro-batches.
    fresh = Estimator(
        accelerators=estimator.accelerators,
        model=estimator.core.model,
        graphs=GraphLibrary(capture=capture_in_process),
    )
    [weighed] = fresh.core.predictions([(whole, spec)])
    assert by_graph.time_s > 0
    assert by_few.time_s == pytest.approx(weighed.time_s, rel=0.02)
    for name in ("forward_share", "backward_share", "optimizer_share"):
        assert getattr(told.step.profile, name) == pytest.approx(
            getattr(whole.step.profile, name), abs=0.02
        )
    assert told.step.profile.node_count == pytest.approx(whole.step.profile.node_count, rel=0.05)
    assert np.all(np.diff(told.step.profile.gradient_ready) >= 0)
    # The first gradients are ready when the last micro-batch begins to go back.
    ready = told.step.profile.gradient_ready[0], whole.step.profile.gradient_ready[0]
    assert ready[0] == pytest.approx(ready[1], abs=0.02)


def test_few_micro_batches_have_their_own_graph(estimator: Estimator) -> None:
    job = _job(MOST_CAPTURED)
    told = estimator.core.prepare(job)
    assert told.step.repeated is None
    assert told.step.time_factor == 1.0
    assert told.captured_samples == told.samples == 2 * MOST_CAPTURED


def test_time_rises_with_the_micro_batches(estimator: Estimator) -> None:
    placement = parse_placement("2x(8xA100-SXM4-80GB)@8xib-200g tp=8 pp=2")
    times = [estimator.estimate(_job(n), placement).step_time_s for n in (4, 5, 8, 64, 1024)]
    assert all(a < b for a, b in zip(times, times[1:], strict=False))


def test_steps_of_as_many_captured_batches_are_captured_once() -> None:
    asked: list[Job] = []

    def capture(job: Job) -> CapturedStep:
        asked.append(job)
        return capture_in_process(job)

    library = GraphLibrary(capture=capture)
    steps = [library.step(_job(n)) for n in (64, 512)]
    assert [job.accumulation_steps for job in asked] == [MOST_CAPTURED] * 2
    assert steps[0].graph.content_hash == steps[1].graph.content_hash
    assert steps[0].time_factor < steps[1].time_factor


def test_inference_is_never_repeated() -> None:
    assert captured_batches(Job(model="zoo/mpt", mode=Mode.INFERENCE)) == 1
