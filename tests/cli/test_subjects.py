"""What a MODEL argument may be, and what is said of everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.cli.subjects import (
    describe_job,
    job_of,
    jobs_of,
    jobs_of_all,
    parse_json,
    parse_pairs,
    read_subject,
)
from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.types import Mode


def test_a_name_is_a_reference() -> None:
    subject = read_subject("timm/vit_base_patch16_224", ["img_size=192"])
    job = job_of(subject.reference, {"batch_size": 4, "mode": None})
    assert (job.model, job.model_kwargs) == ("timm/vit_base_patch16_224", {"img_size": 192})
    assert (job.mode, job.batch_size) == (Mode.INFERENCE, 4)


def test_json_files_are_told_apart_by_content(tmp_path: Path) -> None:
    config = tmp_path / "bert.json"
    config.write_text('{"model_type": "bert", "hidden_size": 128}')
    assert read_subject(str(config)).reference["hf_config"]["hidden_size"] == 128
    request = tmp_path / "request.json"
    request.write_text('{"job": {}, "placement": "V100"}')
    assert read_subject(str(request)).request == {"job": {}, "placement": "V100"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("other.json", '{"a": 1}', "neither a request"),
        ("list.json", "[1]", "neither a request"),
        (
            "unet.json",
            '{"_class_name": "UNet", "_diffusers_version": "0.6.0"}',
            "diffusion.py:unet",
        ),
        ("model.safetensors", "", "holds weights"),
        ("bert.cfg", "{}", "--config"),
        ("nan.json", '{"job": NaN}', "is not JSON"),
        ("cut.json", '{"job": {', "is not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=words):
        read_subject(str(path))


def test_options_beside_lists_alone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"model": "zoo/mlp", "batch_size": 2}')
    said = {"batch_size": 8, "frozen": None, "model_kwargs": ()}
    with pytest.raises(InvalidInputError, match="--batch-size would change nothing"):
        jobs_of_all([str(path)], said)
    jobs = jobs_of_all([str(path), "zoo/mlp"], said)
    assert [job.batch_size for job in jobs] == [2, 8]


def test_a_name_that_no_model_has_is_told_before_anything_runs() -> None:
    with pytest.raises(UnknownModelError):
        jobs_of("timm/no_such_net", {"model_kwargs": ()})


@pytest.mark.parametrize("name", ["absent.json", "absent.onnx"])
def test_a_missing_file_is_named(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"no file '{name}'"):
        read_subject(name)


@pytest.mark.parametrize("pairs", [["img_size"], ["=3"], ["a=1", "a=2"]])
def test_bad_pairs_are_refused(pairs: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="--model-kwarg"):
        parse_pairs(pairs, option="--model-kwarg")


def test_json_refuses_what_follows_it() -> None:
    with pytest.raises(InvalidInputError, match="Line 3 is not JSON"):
        parse_json('{"a": 1} 2', source="Line 3")


@pytest.mark.parametrize(
    "option", [{"optimizer": "adamw"}, {"activation_checkpointing": "full"}], ids=str
)
def test_what_training_alone_has_is_refused_in_inference(option: dict[str, str]) -> None:
    model = {"model": "timm/resnet50"}
    with pytest.raises(InvalidInputError, match="--mode training"):
        job_of(model, option)
    assert job_of(model, {**option, "mode": "training"})
    assert job_of({"graph": "ab", "mode": "training"}, option)


def test_a_job_is_described_with_what_changes_its_step() -> None:
    lora = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}
    settings = {"mode": "training", "mixed_precision": {"parameter": "bf16"}, "adapter": lora}
    job = job_of({"model": "gpt2"}, {**settings, "activation_checkpointing": True})
    said = "gpt2, training, batch 1, fp32 computed in bf16, sgd, LoRA, recomputing, eager"
    assert describe_job(job) == said
