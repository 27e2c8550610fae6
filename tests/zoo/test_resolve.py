from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.graph.job import Job
from perfmodel.types import Mode
from perfmodel.zoo import build_bundle, build_program, capture_job, known_models

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


def test_libraries_load_when_they_are_needed_beside_any_build_of_torch_and_offline() -> None:
    code = (
        "import os, sys; os.environ.pop('HF_HUB_OFFLINE', None)\n"
        "import perfmodel.zoo, perfmodel.zoo.resolve\n"
        "print('torch' in sys.modules)\n"
        "assert 'zoo/mlp' in perfmodel.zoo.known_models('zoo/')\n"
        "print('timm' in sys.modules)\n"
        "from perfmodel.zoo.libraries import import_timm; timm = import_timm()\n"
        "from huggingface_hub import constants; print(timm.__name__, constants.HF_HUB_OFFLINE)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "timm", "True"]


def test_known_models_by_prefix() -> None:
    every = known_models()
    assert {"timm/resnet50", "zoo/mlp"} <= set(every)
    assert known_models("timm/resnet50")[0] == "timm/resnet50"
    assert all(name.startswith("zoo/") for name in known_models("zoo/"))
    assert known_models("nothing") == []


@pytest.mark.parametrize(
    "job",
    [
        Job(model="timm/resnet18", mode=Mode.TRAINING, batch_size=2),
        Job(model="zoo/ncf", mode=Mode.TRAINING, batch_size=2, optimizer="adam"),
        Job(hf_config=LLAMA, mode=Mode.INFERENCE, batch_size=2, sequence_length=16),
    ],
    ids=lambda job: job.label,
)
def test_the_same_job_gives_the_same_graph(job: Job) -> None:
    first = capture_job(job)
    assert capture_job(job).content_hash == first.content_hash
    assert capture_job(replace(job, batch_size=3)).content_hash != first.content_hash


def test_order_of_arguments_does_not_matter() -> None:
    kwargs: dict[str, Any] = {"num_classes": 7, "in_chans": 1}
    one = capture_job(Job(model="timm/test_resnet", model_kwargs=kwargs))
    other = capture_job(Job(model="timm/test_resnet", model_kwargs=dict(reversed(kwargs.items()))))
    assert one.content_hash == other.content_hash


def test_source_says_where_a_graph_comes_from() -> None:
    source = capture_job(Job(model="timm/test_resnet")).source
    assert source["model"] == "timm/test_resnet"
    assert source["family"] == "resnet"
    assert {"torch", "timm"} <= set(source)


def test_program_runs_on_the_cpu() -> None:
    program = build_program(Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=4), device="cpu")
    # ten equal-looking classes: the first loss lies near ln 10 = 2.3
    assert 2.0 < float(program.step()) < 2.7


@pytest.mark.parametrize(
    ("job", "pointer"),
    [
        (Job(), "/job"),
        (Job(model="zoo/mlp", hf_config=LLAMA), "/job"),
        (Job(graph="abc"), "/job/graph"),
        (Job(model="zoo/mlp", batch_size=0), "/job/batch_size"),
        (Job(model="zoo/mlp", batch_size=2.0), "/job/batch_size"),  # type: ignore[arg-type]
        (Job(model="zoo/mlp", batch_size=True), "/job/batch_size"),
        (Job(model="zoo/mlp", accumulation_steps=0), "/job/accumulation_steps"),
        (Job(model="zoo/mlp", accumulation_steps=2), "/job/accumulation_steps"),
        (Job(hf_config=LLAMA, sequence_length=0), "/job/sequence_length"),
        (Job(model="timm/resnet18", sequence_length=8), "/job/sequence_length"),
        (Job(hf_config=LLAMA, model_kwargs={"a": 1}), "/job/model_kwargs"),
        (Job(model="resnet50"), "/job/model"),
        (Job(model="zoo/nothing"), "/job/model"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_jobs(job: Job, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_bundle(job)
    assert caught.value.pointer == pointer


def test_a_name_without_prefix_brings_the_nearest() -> None:
    with pytest.raises(UnknownModelError, match="starts with timm/ or zoo/") as caught:
        build_bundle(Job(model="resnet50"))
    assert "timm/resnet50" in caught.value.did_you_mean


def test_settings_that_the_program_refuses_point_into_the_job() -> None:
    job = Job(model="zoo/mlp", mode=Mode.TRAINING, optimizer="sdg")
    with pytest.raises(InvalidInputError, match="sdg") as caught:
        build_program(job)
    assert caught.value.pointer == "/job/optimizer"
