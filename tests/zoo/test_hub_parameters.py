"""Open models are built as their makers published them: every parameter is counted."""

from __future__ import annotations

import pytest

from perfmodel.errors import UnknownModelError
from perfmodel.graph.hub_models.names import DENOISERS, hub_model, hub_models
from perfmodel.requests import parse_job
from perfmodel.zoo.bundle import building_on
from perfmodel.zoo.libraries import import_transformers
from perfmodel.zoo.references.reference import reference_names
from perfmodel.zoo.resolve import build_bundle, capture_job
from perfmodel.zoo.transformers.architecture import build_architecture, make_config
from perfmodel.zoo.transformers.huggingface import answer_for_meta_tensors


def _parameters(config: dict[str, object]) -> int:
    with building_on("meta"):
        module = build_architecture(make_config(config), config.get("architectures"))
    return sum(parameter.numel() for parameter in module.parameters())


def test_each_has_the_parameters_that_were_published() -> None:
    import_transformers()
    answer_for_meta_tensors()
    wrong = {
        one.name: (found, one.parameters)
        for one in hub_models()
        if (found := _parameters(dict(one.config))) != one.parameters
    }
    assert not wrong


def test_the_arithmetic_of_a_small_one_is_that_of_its_parameters() -> None:
    job = parse_job(
        {"model": "distilgpt2", "mode": "inference", "batch_size": 1, "sequence_length": 64}
    )
    bundle, graph = build_bundle(job), capture_job(job)
    known = hub_model("distilgpt2")
    assert known is not None
    assert bundle.parameter_count == graph.parameter_count == known.parameters


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    job = parse_job({"model": "meta-llama/Llama-3.1-8", "mode": "inference", "batch_size": 1})
    with pytest.raises(UnknownModelError) as error:
        build_bundle(job)
    assert "meta-llama/Llama-3.1-8B" in error.value.did_you_mean


def test_a_pipeline_is_answered_with_the_model_that_takes_its_time() -> None:
    name = "stabilityai/stable-diffusion-xl-base-1.0"
    with pytest.raises(UnknownModelError, match="pipeline") as error:
        build_bundle(parse_job({"model": name, "mode": "inference", "batch_size": 1}))
    assert error.value.did_you_mean == ["zoo/sdxl-unet"]
    assert {name.removeprefix("zoo/") for name in DENOISERS.values()} <= set(reference_names())
