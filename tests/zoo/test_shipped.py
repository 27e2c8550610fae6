"""Graphs that come with the package are those that a capture gives, and need no PyTorch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from perfmodel.errors import CaptureBudgetError, InvalidInputError
from perfmodel.estimator.captures.capture_child import CaptureChild
from perfmodel.estimator.jobs.capture_terms import CaptureBudget
from perfmodel.graph.canonical import to_json
from perfmodel.graph.job import Job
from perfmodel.graph.training_options.adapter import LowRankAdapter
from perfmodel.requests import parse_job
from perfmodel.types import MemoryFormat, Mode, Precision
from perfmodel.zoo.shipped import shipped_graphs
from perfmodel.zoo.shipped.building import rules_like, rules_of
from perfmodel.zoo.shipped.library_folder import LibraryFolder, capturing_here
from perfmodel.zoo.shipped.shipped_graphs import FOLDER, is_shipped, shipped_graph
from perfmodel.zoo.shipped.variants import model_key, variant_key
from perfmodel.zoo.shipped.wanted import wanted_models, wanted_programs

RESNET = Job(model="timm/resnet50", mode=Mode.TRAINING, precision=Precision.AMP_BF16)


def _hub(name: str, **stated: object) -> Job:
    return parse_job({"model": name, "mode": "inference", "batch_size": 1, **stated})


#: Where rules could go wrong: one sample, odd numbers, the usual length and the longest, ...
SAMPLE = [
    replace(RESNET, batch_size=1),
    replace(RESNET, batch_size=77, optimizer="adamw"),
    replace(RESNET, batch_size=6, memory_format=MemoryFormat.CHANNELS_LAST),
    Job(model="timm/resnet50", batch_size=1000, precision=Precision.FP16),
    _hub("bert-base-uncased"),
    _hub("bert-base-uncased", batch_size=9, sequence_length=511),
    _hub("bert-base-uncased", batch_size=9, sequence_length=512, precision="amp_fp16"),
    _hub("gpt2", batch_size=3, sequence_length=100, mode="training", optimizer="adamw"),
]


@pytest.mark.parametrize("job", SAMPLE, ids=lambda job: f"{job.label} {variant_key(job)}")
def test_shipped_graphs_are_those_of_a_capture(job: Job) -> None:
    found = shipped_graph(job)
    truth = capturing_here(job)
    assert found is not None
    assert to_json(found.graph) == to_json(truth.graph)
    assert found.tokens_per_sample == truth.tokens_per_sample


def test_some_models_are_captured_again_others_with_other_code() -> None:
    """Which of them depends on the code that captures, so that changes of it meet many."""
    from perfmodel.zoo.shipped.library_folder import captured_by

    index = orjson.loads((FOLDER / "index.json").read_bytes())["models"]
    models = [
        m for m in wanted_models() if model_key(m) in index and (m.model or "").startswith("timm/")
    ]
    model = models[int(captured_by(), 16) % len(models)]
    programs = list(wanted_programs(model))
    job = replace(programs[int(captured_by(), 16) % len(programs)], batch_size=7)
    found = shipped_graph(job)
    assert found is None or to_json(found.graph) == to_json(capturing_here(job).graph), job


@pytest.mark.parametrize(
    "job",
    [
        replace(RESNET, model_kwargs={"num_classes": 10}),
        replace(RESNET, accumulation_steps=2),
        replace(RESNET, optimizer="lamb"),
        replace(RESNET, frozen=("layer1.*",)),
        replace(RESNET, adapter=LowRankAdapter(target_modules=("fc",))),
        _hub("bert-base-uncased", sequence_length=1),
        _hub("bert-base-uncased", sequence_length=513),
        Job(job_type="LM"),
    ],
    ids=[
        "arguments",
        "micro-batches",
        "optimizer",
        "frozen",
        "adapter",
        "one token",
        "too long",
        "job type",
    ],  # fmt: skip
)
def test_what_no_rule_was_found_for_is_captured(job: Job) -> None:
    assert not is_shipped(job)


def test_jobs_that_contradict_themselves_are_refused_as_by_a_capture() -> None:
    with pytest.raises(InvalidInputError, match="reads images") as caught:
        shipped_graph(replace(RESNET, sequence_length=5))
    assert caught.value.pointer == "/job/sequence_length"
    with pytest.raises(CaptureBudgetError, match="more than 100 operators"):
        shipped_graph(RESNET, most_nodes=100)


def test_a_damaged_file_is_not_answered_from(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    shutil.copytree(FOLDER, folder)
    path = folder / f"{model_key(RESNET)}.graphs"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert shipped_graph(RESNET, folder=folder) is None
    assert not is_shipped(RESNET, folder=folder)


def test_what_other_libraries_made_is_captured_by_those_installed(tmp_path: Path) -> None:
    index = orjson.loads((FOLDER / "index.json").read_bytes())
    for release, known in ((index["libraries"]["torch"], True), ("1.0.0", False)):
        folder = tmp_path / release
        shutil.copytree(FOLDER, folder)
        libraries = {**index["libraries"], "torch": release}
        (folder / "index.json").write_bytes(orjson.dumps({**index, "libraries": libraries}))
        assert is_shipped(RESNET, folder=folder) is known


def test_a_model_is_built_once_and_found_sound(tmp_path: Path) -> None:
    (model,) = [one for one in wanted_models() if one.model == "zoo/mlp"]
    library = LibraryFolder(tmp_path, capturing_here)
    (built,) = library.build([model])
    assert built.programs == len(list(wanted_programs(model))) and not built.missing
    assert not list(library.build([model]))
    assert library.check(model, (1, 7)) == []
    assert shipped_graphs.shipped_graph(replace(model, batch_size=5), folder=tmp_path) is not None


def test_wrong_rules_are_found_out() -> None:
    job = Job(model="zoo/mlp", mode=Mode.TRAINING)
    rules = rules_of(job, capturing_here, thorough=True)
    wider = replace(job, model_kwargs={"hidden_size": 100})
    assert rules_like(wider, rules, capturing_here) is None


@pytest.fixture
def without_torch(tmp_path: Path) -> Path:
    """Return a folder of libraries among which PyTorch, timm and transformers fail to import."""
    for name in ("torch", "timm", "transformers"):
        (tmp_path / name).mkdir()
        line = f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n"
        (tmp_path / name / "__init__.py").write_text(line)
    return tmp_path


def test_a_command_answers_without_torch(without_torch: Path) -> None:
    (without_torch / "models").mkdir()
    asked = ["timm/resnet50", "--batch-size", "64", "--mode", "training", "--on", "A100", "--json"]
    command = [sys.executable, "-m", "perfmodel", "predict", *asked]
    run = subprocess.run(
        [*command, "--models", "models"],
        env={**os.environ, "PYTHONPATH": str(without_torch)},
        cwd=without_torch, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["throughput"]["samples_per_second"] > 0


def test_a_service_captures_known_models_without_torch(
    without_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(without_torch))
    child = CaptureChild()
    try:
        step = child.capture(replace(RESNET, batch_size=32), CaptureBudget()).step
    finally:
        child.close()
    expected = shipped_graph(replace(RESNET, batch_size=32))
    assert expected is not None
    assert step.graph.content_hash == expected.graph.content_hash
