"""Open models by the names of their hubs."""

from __future__ import annotations

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.graph.hub_models.names import hub_model, hub_models, hub_names
from perfmodel.graph.job import job_to_dict
from perfmodel.graph.job_form import parse_job

_SETTINGS = {"mode": "training", "batch_size": 2}


def test_every_name_means_one_model_and_most_that_people_ask_for_are_there() -> None:
    names = [name.casefold() for name in hub_names()]
    assert len(names) == len(set(names)) >= 300
    assert len(hub_models()) >= 160
    for asked in (
        "meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.1", "Qwen/Qwen2.5-7B", "gpt2",
        "bert-base-uncased", "facebook/opt-1.3b", "google/gemma-2b", "deepseek-ai/DeepSeek-V3",
        "mistralai/Mixtral-8x7B-v0.1", "openai/whisper-small", "google/vit-base-patch16-224",
        "openai/clip-vit-base-patch32", "google/flan-t5-base", "BAAI/bge-m3", "tiiuae/falcon-40b",
    ):  # fmt: skip
        assert hub_model(asked) is not None, asked


def test_a_name_stands_for_its_configuration() -> None:
    found = hub_model("meta-llama/Llama-3.1-8B")
    assert found is not None
    named = parse_job({"model": "meta-llama/llama-3.1-8b-instruct", **_SETTINGS})
    written = parse_job({"hf_config": found.config, **_SETTINGS})
    assert named == written
    assert named.reference == written.reference
    assert named.label == "meta-llama/Llama-3.1-8B"
    assert parse_job(job_to_dict(named)) == named


def test_keywords_change_its_fields() -> None:
    short = parse_job({"model": "gpt2", "model_kwargs": {"n_layer": 2}, **_SETTINGS})
    assert short.hf_config == {"model_type": "gpt2", "n_embd": 768, "n_layer": 2, "n_head": 12}
    assert short.label == "hf_config/gpt2"
    with pytest.raises(InvalidInputError):
        parse_job({"model": "gpt2", "hf_config": {"model_type": "bert"}, **_SETTINGS})


def test_what_a_model_goes_without_is_null() -> None:
    second, third = "mistralai/Mistral-7B-Instruct-v0.1", "mistralai/Mistral-7B-Instruct-v0.3"
    windows = [
        found.config.get("sliding_window", "as usual")
        for name in (second, third)
        if (found := hub_model(name)) is not None
    ]
    assert windows == ["as usual", None]
