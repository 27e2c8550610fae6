"""``profile model.onnx``: one's own file, measured, kept, and asked about by the same name."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from migrated import migrated_sqlite
from onnx import helper
from onnx_files import onnx_file, tensor_info, weight

from perfmodel.cli import cli
from perfmodel.cli.asking.prepare import prepare_job
from perfmodel.cli.subjects import jobs_and_files, read_subject
from perfmodel.graph.job import stated_fields
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.profile_corpus import profile_corpus
from perfmodel.training.samples.samples import TOO_NOISY
from perfmodel.types import Compiler


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of one product of an open number of rows; the lock of the machine is ours."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "product.onnx"
    model = onnx_file(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor_info("x", ["n", 256])], [tensor_info("y", None)], [weight("w", 256, 256)],
    )  # fmt: skip
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return path


def _run(*args: str, code: int = 0) -> Result:
    shown = CliRunner(env={"PERFMODEL_DATA": None}).invoke(cli, list(args))
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def test_a_file_is_measured_once_and_read_without_it(product: Path, tmp_path: Path) -> None:
    out = tmp_path / "profiles"
    words = ["profile", str(product), "--dim", "n=64", "--out", str(out), "--threads", "1"]
    first = _run(*words)
    assert "onnx/product inference batch 64 fp32 onnxruntime: " in first.stderr
    assert "1 measured, 0 held before, 0 failed" in first.stdout
    assert (
        "onnx/product inference batch 64 fp32 onnxruntime: measured before" in _run(*words).stderr
    )
    # Another way to say the same extents, and another engine.
    words[2:4] = ["--batch-size", "64"]
    assert json.loads(_run(*words, "--json").stdout)["skipped"] == 1
    assert json.loads(_run(*words, "--json", "--compiler", "openvino").stdout)["finished"] == 1

    options = {"batch_size": 64, "dims": (), "compiler": "onnxruntime", "inputs": None}
    asked, graph = prepare_job(read_subject(str(product)), {"model_kwargs": (), **options})
    product.unlink()
    store = ProfileStore(out)
    steps = {step.compiler: step for step in store.steps()}
    assert set(steps) == {Compiler.ONNXRUNTIME, Compiler.OPENVINO}
    measured = steps[Compiler.ONNXRUNTIME]
    # The record is of the job that a question about the file has, and brings its graph.
    assert dict(measured.job) == stated_fields(asked)
    assert graph is not None
    assert store.graph(measured.graph_hash).content_hash == graph.content_hash
    # What learns takes it, unless this machine is too busy to measure.
    corpus = profile_corpus(store)
    assert [one.step.compiler for one in corpus.samples] == [Compiler.ONNXRUNTIME] or (
        corpus.dropped[TOO_NOISY] >= 1
    )


def test_files_are_measured_by_profile_alone(product: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text('{"model": "product.onnx", "batch_size": 2}\n')
    database = migrated_sqlite(tmp_path)
    for subject in (str(product), str(jobs)):
        for words in (["campaign", "create", "--database", database], ["measure", "replicas"]):
            shown = _run(*words, subject, code=2)
            assert "Only `perfmodel profile` measures such a file" in shown.stderr
    listed, files = jobs_and_files(
        [str(jobs), "zoo/mlp"], {"dims": (), "model_kwargs": (), "batch_size": None}
    )
    assert [job.label for job in listed] == [f"graph/{next(iter(files))[:12]}", "zoo/mlp"]


def test_what_cannot_be_run_is_refused(product: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out")]
    unbound = _run("profile", str(product), *out, code=2)
    assert "leaves 'n' open" in unbound.stderr
    product.write_bytes(product.read_bytes()[:90])
    assert "no complete ONNX file" in _run("profile", str(product), *out, code=2).stderr
    graph = tmp_path / "graph.json"
    _run("capture", "zoo/mlp", "--output", str(graph))
    told = _run("profile", str(graph), *out, code=2).stderr
    assert "graph.json cannot be run: give a model by name" in told
    named = _run("profile", "zoo/mlp", "--dim", "n=3", *out, code=2)
    assert "--dim binds dimensions of an .onnx file" in named.stderr
