"""Names of models as people say them."""

from __future__ import annotations

import pytest

from perfmodel.graph.hub_models.spoken_names import spoken_model, suggested_models
from perfmodel.graph.job_form import parse_job

_SETTINGS = {"mode": "inference", "batch_size": 1}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("llama3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("llama 3.1 8b", "meta-llama/Llama-3.1-8B"),
        ("llama2-70b-chat", "meta-llama/Llama-2-70b-hf"),
        ("https://huggingface.co/meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("hf:Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen/Qwen2.5-7B"),
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("gemma-2-9b-it", "google/gemma-2-9b"),
        ("phi-2", "microsoft/phi-2"),
        ("gpt-2", "gpt2"),
        ("opt-1.3b", "facebook/opt-1.3b"),
        ("whisper-large-v3", "openai/whisper-large-v3"),
        ("ResNet50", "timm/resnet50"),
        ("resnet-50", "microsoft/resnet-50"),
        ("efficientnet-b0", "timm/efficientnet_b0"),
        ("vit-base-patch16-224", "google/vit-base-patch16-224"),
        ("vit_base_patch16_224", "timm/vit_base_patch16_224"),
        ("mobilenet_v2", "timm/mobilenetv2_100"),
        ("swin_t", "timm/swin_tiny_patch4_window7_224"),
    ],
)
def test_a_name_that_can_mean_one_model_is_read_as_that(said: str, meant: str) -> None:
    assert spoken_model(said) == meant
    asked, full = (parse_job({"model": name, **_SETTINGS}) for name in (said, meant))
    assert asked == full
    assert asked.reference == full.reference


@pytest.mark.parametrize(
    ("said", "suggested"),
    [
        ("mistral 7b", "mistralai/Mistral-7B-v0.3"),
        ("llama3", "meta-llama/Llama-3.1-8B"),
        ("bert-base", "bert-base-uncased"),
        ("whisper", "openai/whisper-tiny"),
        ("torchvision.models.resnet50", "timm/resnet50"),
        ("bge-large", "BAAI/bge-large-en-v1.5"),
    ],
)
def test_one_that_can_mean_several_is_left_with_all_of_them(said: str, suggested: str) -> None:
    assert spoken_model(said) is None
    found = suggested_models(said)
    assert suggested in found
    assert len(found) <= 5


@pytest.mark.parametrize("said", ["", " ", "/", "x/", "base", "instruct", "v2", "-", "日本", "it"])
def test_what_says_nothing_is_no_model(said: str) -> None:
    assert spoken_model(said) is None


def test_the_same_model_is_suggested_once() -> None:
    found = suggested_models("bert", limit=20)
    assert "bert-base-uncased" in found
    assert "google-bert/bert-base-uncased" not in found


def test_every_name_of_timm_is_one_that_it_knows() -> None:
    timm = pytest.importorskip("timm")
    suggested = suggested_models("resnet", limit=2000)
    listed = [name.removeprefix("timm/") for name in suggested if name.startswith("timm/")]
    assert len(listed) > 50
    assert [name for name in listed if not timm.models.is_model(name)] == []
