"""Steps of several micro-batches are told from the graph of one."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.captured_step import CapturedStep, with_batches
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

pytest.importorskip("torch")

MODELS = Path(__file__).parents[3] / "models"


def _job(micro_batches: int) -> Job:
    return Job(
        model="zoo/megatron-gpt",
        model_kwargs={"num_layers": 2, "hidden_size": 2048, "num_heads": 16, "vocab_size": 8192},
        mode=Mode.TRAINING,
        batch_size=16,
        accumulation_steps=micro_batches,
        precision=Precision.BF16,
        optimizer="adam",
        sequence_length=1024,
    )


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    library = GraphLibrary(capture=capture_in_process)
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=library)


def _captured_whole(job: Job) -> CapturedStep:
    return capture_in_process(job)


@pytest.mark.parametrize("micro_batches", [4, 16])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_many_micro_batches_take_as_long_as_their_own_graph_says(
    estimator: Estimator, micro_batches: int, optimizer: str
) -> None:
    job = replace(_job(micro_batches), optimizer=optimizer)
    whole, told = _captured_whole(job), estimator.core.prepare(job)
    assert len(told.step.graph.nodes) < len(whole.graph.nodes)
    one = told.on(estimator.accelerators.get("A100-SXM4-80GB"))
    in_all = replace(one, graph=whole.graph, batch_size=told.samples)
    [by_graph, by_one] = estimator.core.model.predict([in_all, one])
    assert by_one.time_s * told.step.time_factor == pytest.approx(by_graph.time_s, rel=0.03)
    for name in ("forward_share", "backward_share", "optimizer_share"):
        assert getattr(told.step.profile, name) == pytest.approx(
            getattr(whole.profile, name), abs=0.02
        )
    assert told.step.profile.node_count == pytest.approx(whole.profile.node_count, rel=0.05)
    assert np.all(np.diff(told.step.profile.gradient_ready) >= 0)
    # The first gradients are ready when the last micro-batch begins to go back.
    ready = told.step.profile.gradient_ready[0], whole.profile.gradient_ready[0]
    assert ready[0] == pytest.approx(ready[1], abs=0.02)
    memory = told.step.memory_profile.peak_tensor_bytes, whole.memory_profile.peak_tensor_bytes
    assert memory[0] == pytest.approx(memory[1], rel=0.02)


def test_the_job_of_one_micro_batch_is_its_own_graph(estimator: Estimator) -> None:
    told = estimator.core.prepare(_job(1))
    assert told.step.micro_batches == 1
    assert told.step.time_factor == 1.0


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_more_micro_batches_never_lower_what_a_script_gets_done(
    estimator: Estimator, optimizer: str
) -> None:
    placement = parse_placement("H100-SXM5-80GB")
    jobs = [replace(_job(count), optimizer=optimizer, script=True) for count in (1, 2, 4, 16)]
    rates = [estimator.estimate(job, placement).throughput.samples_per_second for job in jobs]
    assert rates == sorted(rates)


def test_time_rises_with_the_micro_batches(estimator: Estimator) -> None:
    placement = parse_placement("2x(8xA100-SXM4-80GB)@8xib-200g tp=8 pp=2")
    times = [estimator.estimate(_job(n), placement).step_time_s for n in (1, 2, 8, 64, 1024)]
    assert all(a < b for a, b in zip(times, times[1:], strict=False))


@pytest.mark.parametrize("name", ["A100-SXM4-80GB", "T4", "B200-SXM", "MI300X"])
def test_no_step_takes_longer_than_one_of_each_of_its_micro_batches(name: str) -> None:
    estimator = Estimator.from_folder(MODELS)
    draw = random.Random(name)
    for _ in range(4):
        model = draw.choice(["timm/convnext_tiny", "timm/resnet18", "timm/vit_small_patch16_224"])
        job = Job(
            model=model,
            mode=Mode.TRAINING,
            batch_size=draw.choice([1, 4, 32]),
            precision=Precision.AMP_FP16,
            optimizer=draw.choice(["sgd", "adamw"]),
        )
        spec, counts = estimator.accelerators.get(name), (1, 2, 4, 32)
        prepared = [
            estimator.core.prepare(replace(job, accumulation_steps=count)) for count in counts
        ]
        times = [one.time_s for one in estimator.core.predictions([(p, spec) for p in prepared])]
        assert times == sorted(times)
        for count, time_s in zip(counts, times, strict=True):
            assert time_s <= count * times[0] * (1 + 1e-12)


def test_steps_of_any_number_of_batches_are_captured_once() -> None:
    asked: list[Job] = []

    def capture(job: Job) -> CapturedStep:
        asked.append(job)
        return capture_in_process(job)

    library = GraphLibrary(capture=capture)
    steps = [with_batches(library.step(job), job) for job in map(_job, (1, 64, 512))]
    assert {job.accumulation_steps for job in asked} == {1}
    assert len({step.graph.content_hash for step in steps}) == 1
    assert steps[0].time_factor < steps[1].time_factor < steps[2].time_factor
