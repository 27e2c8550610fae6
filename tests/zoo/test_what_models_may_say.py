"""What a job may say of its model: its structure, of a size that can be captured, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import CaptureBudgetError, InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.types import Mode
from perfmodel.zoo.size_check import check_size
from perfmodel.zoo.structure_check import structure_of

VIT = "timm/vit_tiny_patch16_224"


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"model": VIT, "model_kwargs": {"depth": 100_000}}, "/job/model_kwargs/depth"),
        ({"model": "timm/resnet50", "model_kwargs": {"layers": [3, 4, 6000]}}, "layers"),
        ({"hf_config": {"model_type": "bert", "num_hidden_layers": 2_000}}, "num_hidden_layers"),
        ({"hf_config": {"model_type": "clip", "text_config": {"num_hidden_layers": 900}}},
         "/text_config/num_hidden_layers"),
        ({"hf_config": {"model_type": "t5", "num_layers": 1e9}}, "num_layers"),
        ({"hf_config": {"model_type": "gpt2", "n_layer": 501}}, "n_layer"),
        ({"hf_config": {"model_type": "x", "stages": [{"depth": 501}]}}, "/stages/0/depth"),
        ({"hf_config": {"model_type": "mixtral", "num_local_experts": 10**6}}, "num_local_experts"),
        ({"hf_config": {"model_type": "llama", "hidden_size": 2**40, "vocab_size": 2**40}}, ""),
        ({"hf_config": {f"num_layers_{i}": 400 for i in range(3)}}, ""),
    ],
)  # fmt: skip
def test_models_that_are_too_large_are_refused_by_arithmetic(
    said: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_size(Job(**said))
    assert caught.value.pointer.endswith(pointer)


def test_there_are_no_fewer_layers_than_none() -> None:
    with pytest.raises(InvalidInputError, match="num_hidden_layers is -1"):
        check_size(Job(hf_config={"model_type": "llama", "num_hidden_layers": -1}))
    # From the end.
    check_size(Job(hf_config={"model_type": "llava", "vision_feature_layer": -2}))


def test_layers_alone_may_be_more_than_a_budget_of_operators() -> None:
    deep = Job(hf_config={"model_type": "bert", "num_hidden_layers": 300}, mode=Mode.TRAINING)
    check_size(deep, most_nodes=6_000)  # 300 x 20
    with pytest.raises(CaptureBudgetError, match="300 layers have 6000 operators or more"):
        check_size(deep, most_nodes=5_999)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_hidden_layers": 126, "hidden_size": 16_384, "vocab_size": 128_256,
         "intermediate_size": 53_248},
        {"num_hidden_layers": 61, "n_routed_experts": 256, "hidden_size": 7168},
        {"num_layers": 24, "num_experts": 2048},
        {"layer_norm_eps": 1e-5, "layers_block_type": ["a"] * 80, "encoder_layerdrop": 0.1},
    ],
)  # fmt: skip
def test_the_largest_models_that_people_train_are_taken(fields: dict[str, Any]) -> None:
    check_size(Job(hf_config={"model_type": "some", **fields}, mode=Mode.TRAINING))


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"backbone": "local-dir:/some/folder"}, "/backbone"),
        ({"backbone": "hf-hub:timm/resnet50.a1_in1k"}, "/backbone"),
        ({"backbone": "../models"}, "/backbone"),
        ({"architecture": "/etc"}, "/architecture"),
        ({"vision_tower": "openai/clip-vit-large-patch14"}, "/vision_tower"),
        ({"model_args": {"checkpoint_path": "x.pt"}}, "/model_args/checkpoint_path"),
        ({"backbone_kwargs": {"pretrained_cfg": {"a": 1}}}, "/backbone_kwargs/pretrained_cfg"),
        ({"text_config": {"trust_remote_code": True}}, "/text_config/trust_remote_code"),
        ({"layers": ["a", "b/c"]}, "/layers/1"),
        ({"hidden_act": "g" * 201}, "/hidden_act"),
    ],
)
def test_what_names_a_place_or_loads_something_is_refused(
    fields: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        structure_of(fields, "")
    assert caught.value.pointer == pointer


def test_notes_say_nothing_and_labels_count() -> None:
    noted = {
        "auto_map": {"AutoModel": "stranger/code--modeling.Evil"},
        "_name_or_path": "org/model",
        "use_pretrained_backbone": True,
        "id2label": {"0": "cat/dog", "1": "no: such"},
        "text_config": {"_name_or_path": "/home/me", "hidden_size": 8},
    }
    assert structure_of(noted, "") == {
        "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "text_config": {"hidden_size": 8},
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "detr", "backbone": "secrets", "use_timm_backbone": True},
        {"model_type": "dpt", "backbone": "secrets", "use_timm_backbone": False,
         "is_hybrid": False},
        {"model_type": "timm_backbone", "backbone": "secrets"},
        {"model_type": "timm_wrapper", "architecture": "secrets"},
        {"model_type": "detr", "backbone_config": {"model_type": "timm_backbone",
                                                  "backbone": "secrets"}},
    ],
)  # fmt: skip
def test_folders_of_the_server_are_not_told_from_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    pytest.importorskip("transformers")
    from perfmodel.zoo.transformers.architecture import make_config

    monkeypatch.chdir(tmp_path)

    def told() -> str:
        with pytest.raises(InvalidInputError) as caught:
            make_config(fields)
        return caught.value.message

    before = told()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "config.json").write_text('{"model_type": "resnet"}')
    assert told() == before
    assert "no model of timm" in before


@pytest.mark.parametrize(
    "architecture", ["AutoModel", "pipeline", "Trainer", "BertConfig", "GPT2LMHeadModel", "os"]
)
def test_only_models_of_the_configured_type_are_built(architecture: str) -> None:
    pytest.importorskip("transformers")
    from perfmodel.zoo.transformers.architecture import build_architecture, make_config

    config = make_config({"model_type": "bert", "num_hidden_layers": 1})
    with pytest.raises(InvalidInputError, match="architectures"):
        build_architecture(config, [architecture])
