"""Published throughputs become samples; typical efficiencies learn from them."""

import numpy as np
import pytest

from perfmodel.graph.job import Job
from perfmodel.importers.base import Origin, PublishedStep
from perfmodel.predictors.efficiency import EfficiencyPredictor
from perfmodel.training.published import choose_steps, published_samples
from perfmodel.training.train import unseen_device_residuals
from perfmodel.types import Compiler, Precision


def _step(
    model: str, rate: float, *, accelerator: str = "L4", compiler: Compiler = Compiler.EAGER
) -> PublishedStep:
    job = Job(model=model, batch_size=64, precision=Precision.AMP_FP16, compiler=compiler)
    return PublishedStep(
        job=job, accelerator=accelerator, samples_per_second=rate, origin=Origin(source="made up", licence="CC0")
    )


def test_the_same_models_are_chosen_for_every_setting_in_any_order() -> None:
    steps = [
        _step(f"timm/net{number}", 10.0, accelerator=accelerator)
        for number in range(20)
        for accelerator in ("L4", "T4")
    ]
    chosen = choose_steps(steps, 5)
    again = choose_steps(steps[::-1], 5)
    key = lambda s: (s.accelerator, s.job.model)  # noqa: E731
    assert sorted(map(key, chosen)) == sorted(map(key, again))
    models = {a: {s.job.model for s in chosen if s.accelerator == a} for a in ("L4", "T4")}
    assert len(models["L4"]) == 5
    assert models["L4"] == models["T4"]


def test_a_step_becomes_a_sample_with_the_graph_of_its_model() -> None:
    found = published_samples([_step("timm/test_vit", 3200.0), _step("timm/no_such_net", 1.0)])
    (sample,) = found.samples
    assert sample.step_time_s == pytest.approx(64 / 3200.0)
    assert sample.family == "vision_transformer"
    assert sample.workload.accelerator.name == "L4"
    assert sample.workload.graph.parameter_count > 100_000
    assert found.dropped == {"UnknownModelError": 1}


def test_each_compiler_has_constants_of_its_own_and_others_take_those_of_the_device() -> None:
    models = ("timm/test_vit", "timm/test_resnet", "timm/test_convnext")
    eager = published_samples([_step(m, 2000.0) for m in models]).samples
    compiled = published_samples(
        [_step(m, 8000.0, compiler=Compiler.INDUCTOR) for m in models]
    ).samples
    predictor = EfficiencyPredictor().fit([*eager, *compiled])
    workloads = [s.workload for s in eager]
    fused = [s.workload for s in compiled]
    # Three samples against the pull of the assumed values: faster, not yet four times.
    assert np.all(predictor.predict(fused) < 0.9 * predictor.predict(workloads))
    only_eager = EfficiencyPredictor().fit(eager)
    np.testing.assert_array_equal(only_eager.predict(fused), only_eager.predict(workloads))


def test_unseen_devices_are_judged_without_their_device_and_family() -> None:
    steps = [
        _step(model, 2000.0, accelerator=accelerator)
        for model in ("timm/test_vit", "timm/test_resnet", "timm/test_convnext")
        for accelerator in ("L4", "T4")
    ]
    samples = published_samples(steps).samples
    assert len(unseen_device_residuals(samples)) == len(samples)
    alone = [s for s in samples if s.workload.accelerator.name == "L4"]
    assert len(unseen_device_residuals(alone)) == 0
