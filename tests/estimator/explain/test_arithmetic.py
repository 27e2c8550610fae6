"""How much of its peaks a job uses, by hand; what is computed a second time counts once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from made_up_products import product_step
from synthetic_workloads import mlp
from torch import nn

from perfmodel.capture.torch import capture_module
from perfmodel.client.answers import Explanation
from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.explain.arithmetic import model_flops, recomputed
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

#: One product of 64 rows, 2048 x 1000: 2 * 64 * 2048 * 1000 FLOP of 64 samples.
JOB = Job(model="zoo/one", mode=Mode.INFERENCE, batch_size=64, precision=Precision.FP16)
FLOPS_OF_A_SAMPLE = 2 * 2048 * 1000
A100, T4 = 312e12, 65e12


class OneProduct:
    """One product for every job."""

    def step(self, job: Job) -> CapturedStep:
        """Return it at the batch of the job."""
        return product_step(job.batch_size, 2048, 1000)


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=OneProduct())


def explained(estimator: Estimator, job: Job, placement: str) -> Explanation:
    return estimator.explain(job, parse_placement(placement))


@pytest.mark.parametrize(
    ("placement", "peak"),
    [
        ("A100-SXM4-80GB", A100),
        ("8xA100-SXM4-80GB", 8 * A100),
        ("2x(4xT4)@eth-25g", 8 * T4),
        ("A100-SXM4-80GB+T4@eth-25g", A100 + T4),
        # A part is held to its own peak: three of seven slices, half of the cores.
        ("A100-SXM4-80GB/3g.40gb", 42 / 108 * A100),
        ("A100-SXM4-80GB fraction=0.5", A100 / 2),
        # A limit takes nothing of the peak.
        ("A100-SXM4-80GB power=200", A100),
    ],
)
def test_the_arithmetic_of_the_job_stands_over_all_its_peaks(
    estimator: Estimator, placement: str, peak: float
) -> None:
    found = explained(estimator, JOB, placement)
    used = found.estimate.throughput.samples_per_second * FLOPS_OF_A_SAMPLE
    assert found.model_flops_utilisation == pytest.approx(used / peak, rel=1e-6)
    assert 0 < used / peak < 1


def test_micro_batches_change_nothing_but_the_time(estimator: Estimator) -> None:
    found = explained(estimator, replace(JOB, mode=Mode.TRAINING, accumulation_steps=4), "T4")
    used = found.estimate.throughput.samples_per_second * FLOPS_OF_A_SAMPLE
    assert found.model_flops_utilisation == pytest.approx(used / T4)


class Layers:
    """Four layers for every job."""

    def step(self, job: Job) -> CapturedStep:
        """Return them at the batch of the job."""
        return CapturedStep(graph=mlp(job.batch_size, [512] * 5, "relu", training=True))


def test_a_replica_that_is_split_is_held_to_the_peaks_of_all_its_accelerators() -> None:
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=Layers())
    job = replace(JOB, mode=Mode.TRAINING)
    for placement in ("4xA100-SXM4-80GB", "4xA100-SXM4-80GB pp=2", "4xA100-SXM4-80GB pp=4"):
        found = explained(estimator, job, placement)
        of_a_sample = sum(one.flops for one in found.operator_classes) / 64
        used = found.estimate.throughput.samples_per_second * of_a_sample
        assert found.model_flops_utilisation == pytest.approx(used / (4 * A100))


class Gated(nn.Module):
    """Two products of one input without bias, so that casts and products are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.Linear(32, 32, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Gate one by the other."""
        result: torch.Tensor = nn.functional.silu(self.one(x)) * self.other(x)
        return result


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_BF16])
def test_what_is_computed_again_counts_once(precision: Precision) -> None:
    plain, again = (
        capture_module(
            nn.Sequential(Gated(), Gated(), Gated()),
            (torch.rand(8, 32),),
            mode=Mode.TRAINING,
            precision=precision,
            activation_checkpointing=checkpointed,
        )
        for checkpointed in (False, True)
    )
    assert not recomputed(plain).any()
    products = [n.op for n, one in zip(again.nodes, recomputed(again), strict=True) if one]
    assert products.count("mm") == 3 * 2
    assert model_flops(again) == pytest.approx(model_flops(plain), rel=1e-6)
    # Of a step of several micro-batches all is done as often but for the optimizer.
    assert model_flops(plain, 3) / model_flops(plain) == pytest.approx(3, rel=0.1)
