from __future__ import annotations

import pytest
import torch
from graph_totals import totals

from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo import capture_job
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.references.vision.cyclegan import CycleGan, CycleLoss, discriminator, generator


def _count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _convolution(inputs: int, outputs: int, size: int) -> int:
    return inputs * outputs * size**2 + outputs


def test_parameters() -> None:
    ends = _convolution(3, 64, 7) + _convolution(64, 3, 7)
    down = _convolution(64, 128, 3) + _convolution(128, 256, 3)
    up = _convolution(256, 128, 3) + _convolution(128, 64, 3)
    with torch.device("meta"):
        translator, judge = generator(9), discriminator()
    assert _count(translator) == ends + down + up + 18 * _convolution(256, 256, 3) == 11_378_179
    judged = _convolution(3, 64, 4) + _convolution(64, 128, 4) + _convolution(128, 256, 4)
    judged += _convolution(256, 512, 4) + _convolution(512, 1, 4)
    assert _count(judge) == judged == 2_764_737
    both = build_reference("cyclegan", batch_size=1)
    assert both.parameter_count == 2 * (11_378_179 + 2_764_737)


def test_the_judge_sees_patches_of_70_pixels() -> None:
    # Back from one score: field = (field - 1) * stride + 4 for strides 1, 1, 2, 2, 2.
    field = 1
    for stride in (1, 1, 2, 2, 2):
        field = (field - 1) * stride + 4
    assert field == 70
    with torch.device("meta"):
        assert discriminator()(torch.empty(1, 3, 256, 256)).shape == (1, 1, 30, 30)


def test_inference_translates_both_ways() -> None:
    bundle = build_reference("cyclegan", {"img_size": 64}, batch_size=2)
    there, back = bundle.module.eval()(*bundle.args)
    assert there.shape == back.shape == (2, 3, 64, 64)


def test_one_backward_pass_gives_the_gradients_of_alternating_updates() -> None:
    torch.manual_seed(0)
    network = CycleGan(1)
    first, second = torch.rand(1, 3, 24, 24), torch.rand(1, 3, 24, 24)
    CycleLoss()(network(first, second)).backward()  # type: ignore[no-untyped-call]
    judge, fake = network.judge_second, network.to_second(first).detach()
    apart = judge(second).sub(1).square().mean() / 2 + judge(fake).square().mean() / 2
    expected = torch.autograd.grad(apart, list(judge.parameters()))
    for weight, gradient in zip(judge.parameters(), expected, strict=True):
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-4, atol=1e-6)
    assert all(weight.grad is not None for weight in network.to_second.parameters())


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING])
def test_every_operator_has_a_price(mode: Mode, precision: Precision) -> None:
    job = Job(model="zoo/cyclegan", mode=mode, batch_size=2, precision=precision)
    assert not totals(capture_job(job)).unpriced


def test_a_step_costs_nineteen_passes_of_a_generator() -> None:
    # Six forward passes and their backward passes of twice the work are 18 passes; the
    # discriminators, a thirtieth of a generator each, and the norms make up the rest.
    step = totals(capture_job(Job(model="zoo/cyclegan", mode=Mode.TRAINING, batch_size=2))).flops
    both = totals(capture_job(Job(model="zoo/cyclegan", batch_size=2))).flops
    assert 18 < step / (both / 2) < 20
