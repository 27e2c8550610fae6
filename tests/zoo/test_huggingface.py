from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_totals import totals

from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo.losses import FeatureLoss, OwnLoss
from perfmodel.zoo.resolve import capture_job
from perfmodel.zoo.transformers.architecture import load_config
from perfmodel.zoo.transformers.huggingface import build_huggingface

NARROW = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**NARROW, "num_key_value_heads": 2}
VISION = {"image_size": 32, "patch_size": 16}

#: Small configs of every architecture that is promised, and a few more kinds.
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": NARROW,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "eos_token_id": 2},
    "llama": GROUPED,
    "qwen2": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 8},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "whisper": {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_source_positions": 50,
    },
    "vit": {**NARROW, **VISION},
    "clip": {
        "text_config": {**NARROW, "max_position_embeddings": 20},
        "vision_config": {**NARROW, **VISION},
    },
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "state_size": 4},
    "deberta-v2": NARROW,
    "bart": {
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    },
    "deit": {**NARROW, **VISION},
}  # fmt: skip

IMAGES_ONLY = ("vit", "deit")


def _config(model_type: str, **more: Any) -> dict[str, Any]:
    return {"model_type": model_type, **CONFIGS[model_type], **more}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_model_of_sound_is_captured(mode: Mode) -> None:
    config = {"model_type": "wav2vec2", **NARROW, "conv_dim": [16] * 7}
    graph = capture_job(Job(hf_config=config, mode=mode, batch_size=2))
    assert (2, 160_000) in {tensor.shape for tensor in graph.tensors}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("model_type", CONFIGS)
def test_every_architecture_is_captured(model_type: str, mode: Mode) -> None:
    length = None if model_type in IMAGES_ONLY else 12
    job = Job(hf_config=_config(model_type), mode=mode, batch_size=2, sequence_length=length)
    graph = capture_job(job)
    bundle = build_huggingface(job.hf_config or {}, batch_size=2, sequence_length=length, mode=mode)
    assert graph.parameter_count == bundle.parameter_count
    assert graph.source["model"] == f"hf_config/{model_type}"
    assert isinstance(bundle.loss, OwnLoss) == (mode is Mode.TRAINING)


@pytest.mark.parametrize("model_type", CONFIGS)
def test_every_architecture_trains_on_the_cpu(model_type: str) -> None:
    length = None if model_type in IMAGES_ONLY else 12
    bundle = build_huggingface(
        _config(model_type), batch_size=2, sequence_length=length, mode=Mode.TRAINING, device="cpu"
    )
    loss = bundle.loss(bundle.module(*bundle.args, **bundle.kwargs))
    loss.backward()
    assert torch.isfinite(loss)
    assert any(p.grad is not None for p in bundle.module.parameters())


def test_bert_has_the_parameters_of_its_paper() -> None:
    bundle = build_huggingface({"model_type": "bert"}, batch_size=1)
    # embeddings (30522 + 512 + 2) * 768 and a norm of 2 * 768; 12 layers of four 768^2 + 768,
    # a network of 2 * 768 * 3072 + 3072 + 768 and two norms; the masked-word head is one dense
    # layer, a norm and a bias for each word (its table is that of the embeddings)
    embeddings = (30522 + 512 + 2) * 768 + 2 * 768
    layer = 4 * (768**2 + 768) + 2 * 768 * 3072 + 3072 + 768 + 2 * 2 * 768
    head = 768**2 + 768 + 2 * 768 + 30522
    assert bundle.parameter_count == embeddings + 12 * layer + head == 109_514_298
    assert type(bundle.module).__name__ == "BertForMaskedLM"


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [("llama", 12), ("t5", 24), ("whisper", 12), ("clip", 12)],
)
def test_tokens_count_text_in_encoder_and_decoder(model_type: str, expected: int) -> None:
    bundle = build_huggingface(_config(model_type), batch_size=2, sequence_length=12)
    assert bundle.tokens_per_sample == expected


def test_shapes_come_from_the_config() -> None:
    speech = build_huggingface(_config("whisper"), batch_size=3).kwargs
    # two spectrogram frames for each of 50 source positions, 80 mel bands
    assert speech["input_features"].shape == (3, 80, 100)
    assert speech["decoder_input_ids"].shape == (3, 448)
    pairs = build_huggingface(_config("clip"), batch_size=3).kwargs
    assert pairs["input_ids"].shape == (3, 20)
    assert pairs["pixel_values"].shape == (3, 3, 32, 32)
    text = build_huggingface(_config("llama"), batch_size=3).kwargs
    assert text["input_ids"].shape == (3, 512)


def test_a_named_architecture_wins() -> None:
    fields = _config("bert", architectures=["BertForQuestionAnswering"])
    bundle = build_huggingface(fields, batch_size=2, sequence_length=8, mode=Mode.TRAINING)
    assert type(bundle.module).__name__ == "BertForQuestionAnswering"
    assert set(bundle.kwargs) >= {"input_ids", "start_positions", "end_positions"}
    without_type = {k: v for k, v in fields.items() if k != "model_type"}
    assert build_huggingface(without_type, batch_size=2).family == "bert"


def test_a_head_without_labels_trains_on_its_features() -> None:
    fields = _config("bert", architectures=["BertModel"])
    assert isinstance(build_huggingface(fields, batch_size=2, mode=Mode.TRAINING).loss, FeatureLoss)


def test_stored_numeric_type_is_left_to_the_job() -> None:
    bundle = build_huggingface(_config("llama", torch_dtype="bfloat16"), batch_size=1)
    assert {p.dtype for p in bundle.module.parameters()} == {torch.float32}


def test_config_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(_config("bert")))
    assert build_huggingface(path, batch_size=1).family == "bert"
    path.write_text('{"model_type": "bert", "layer_norm_eps": NaN}')
    with pytest.raises(InvalidInputError, match="NaN"):
        load_config(path)
    path.write_text("[1, 2]")
    with pytest.raises(InvalidInputError, match="must be a JSON object, got list"):
        load_config(path)
    with pytest.raises(InvalidInputError, match="No such file"):
        load_config(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        ({}, "/job/hf_config/model_type", "needs model_type"),
        ({"model_type": "bert", "hidden_size": "x"}, "/job/hf_config", "expected int"),
        ({"model_type": "bert", "hidden_size": 100}, "/job/hf_config", "multiple of"),
        ({"model_type": "bert", "hiden_size": 64}, "/job/hf_config/hiden_size", "'hidden_size'"),
        (
            {"model_type": "bert", "num_hidden_layers": 10**9},
            "/job/hf_config/num_hidden_layers",
            "at most 500",
        ),
        (
            {"model_type": "llama", "quantization_config": {"bits": 4}},
            "/job/hf_config/quantization_config",
            "precision",
        ),
        (
            {"model_type": "llama", "attn_implementation": "someone/kernel"},
            "/job/hf_config/attn_implementation",
            "sdpa",
        ),
        ({"model_type": "llava"}, "/job/hf_config", "text_config"),
    ],
)
def test_bad_configs(fields: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        build_huggingface(fields, batch_size=1)
    assert caught.value.pointer == pointer


def test_unknown_types_and_architectures_bring_the_nearest() -> None:
    with pytest.raises(UnknownModelError) as caught:
        build_huggingface({"model_type": "berd"}, batch_size=1)
    assert "bert" in caught.value.did_you_mean
    with pytest.raises(UnknownModelError) as caught:
        build_huggingface(_config("bert", architectures=["BertForMaskLM"]), batch_size=1)
    assert "BertForMaskedLM" in caught.value.did_you_mean


def test_sequences_end_where_learned_positions_end() -> None:
    with pytest.raises(InvalidInputError, match="512 positions") as caught:
        build_huggingface(_config("bert"), batch_size=1, sequence_length=513)
    assert caught.value.pointer == "/job/sequence_length"
    # rotary positions have no table: a longer sequence is a matter of quality, not of shape
    longer = build_huggingface(
        _config("llama", max_position_embeddings=64), batch_size=1, sequence_length=128
    )
    assert longer.tokens_per_sample == 128
    with pytest.raises(InvalidInputError, match="reads no text"):
        build_huggingface(_config("vit"), batch_size=1, sequence_length=8)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_experts_are_priced_by_the_tokens_they_get(precision: Precision) -> None:
    fields = {
        "model_type": "mixtral", "hidden_size": 32, "intermediate_size": 64, "vocab_size": 100,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "num_local_experts": 4, "num_experts_per_tok": 2,
    }  # fmt: skip
    job = Job(hf_config=fields, precision=precision, batch_size=2, sequence_length=8)
    steps = {mode: totals(capture_job(replace(job, mode=mode))) for mode in Mode}
    forward = steps[Mode.INFERENCE].flops_by_class[OpClass.MATMUL]
    # query and output 32 x 32, key and value 32 x 16, router 32 x 4, two experts of three 32 x 64
    # matrices, and the output layer 32 x 100, at 2 FLOP for each of 2 * 8 tokens
    weights = 2 * 32 * 32 + 2 * 32 * 16 + 32 * 4 + 2 * 3 * 32 * 64 + 32 * 100
    assert forward == 2 * 16 * weights
    assert not steps[Mode.TRAINING].unpriced
    # each product of the forward pass has two in the backward pass
    assert steps[Mode.TRAINING].flops_by_class[OpClass.MATMUL] == 3 * forward


def test_a_detector_decodes_queries_of_its_own() -> None:
    backbone = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8], "depths": [1]}
    config = {
        "model_type": "detr", "use_timm_backbone": False, "backbone_config": backbone,
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    }  # fmt: skip
    bundle = build_huggingface(config, batch_size=2)
    assert set(bundle.kwargs) == {"pixel_values"}
    assert bundle.tokens_per_sample is None


@pytest.mark.parametrize(
    ("model_type", "says"),
    [("musicgen", "Multiple valid text configs"), ("canine", "no attribute 'vocab_size'")],
)
def test_what_inputs_are_made_of_has_to_be_known(model_type: str, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        build_huggingface({"model_type": model_type}, batch_size=2)
