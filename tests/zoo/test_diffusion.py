"""The denoising network of Stable Diffusion 1.5."""

from __future__ import annotations

import pytest
import torch
from graph_totals import totals

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo import capture_job
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.references.vision.diffusion import SD15, Stage

#: Of the published checkpoint.
_PARAMETERS = 859_520_964


def test_it_has_the_published_parameters() -> None:
    bundle = build_reference("sd15-unet", batch_size=1)
    assert bundle.parameter_count == _PARAMETERS
    assert bundle.module(*bundle.args).shape == bundle.args[0].shape


def test_the_larger_one_has_the_published_parameters() -> None:
    bundle = build_reference("sdxl-unet", batch_size=2)
    # 2.57 billion of the published checkpoint.
    assert bundle.parameter_count == 2_567_463_684
    assert bundle.module(*bundle.args).shape == (2, 4, 128, 128)


def test_noise_and_words_change_what_comes_out() -> None:
    # Parts of it alone: the whole takes 3 GiB.
    torch.manual_seed(0)
    stage = Stage(32, 64, 1, SD15)
    latents, noise, words = torch.randn(2, 32, 4, 4), torch.randn(2, 1280), torch.randn(2, 77, 768)
    with torch.no_grad():
        found = stage(latents, noise, words)
        assert found.shape == (2, 64, 4, 4) and torch.isfinite(found).all()
        assert not torch.allclose(found, stage(latents, -noise, words), atol=1e-4)
        assert not torch.allclose(found, stage(latents, noise, -words), atol=1e-4)
        # Samples do not look at each other.
        assert torch.allclose(found[:1], stage(latents[:1], noise[:1], words[:1]), atol=1e-5)


def test_a_step_has_the_published_arithmetic() -> None:
    # About 0.4 tera multiply-adds a sample, as profilers of the published network count them.
    graph = capture_job(Job(model="zoo/sd15-unet", batch_size=2, precision=Precision.FP16))
    found = totals(graph)
    assert not found.unpriced
    assert found.flops / 2 / 2 == pytest.approx(0.40e12, rel=0.05)


def test_it_trains() -> None:
    job = Job(
        model="zoo/sd15-unet", model_kwargs={"side": 256}, mode=Mode.TRAINING, batch_size=1,
        precision=Precision.AMP_FP16,
    )  # fmt: skip
    phases = totals(capture_job(job)).flops_by_phase
    forward, backward = (flops for _, flops in list(phases.items())[:2])
    assert backward == pytest.approx(2.0 * forward, rel=0.1)


def test_a_side_that_cannot_be_halved_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="multiple of 64"):
        build_reference("sd15-unet", {"side": 500}, batch_size=1)
