"""``profile``, ``train``, ``evaluate`` and ``models``: from records to a model that answers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfmodel.cli import cli
from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job, job_to_dict
from perfmodel.graph.workload import Workload
from perfmodel.predictors.roofline import RooflinePredictor
from perfmodel.records import Measurement, Provenance, StepRecord
from perfmodel.store.profiles import ProfileStore
from perfmodel.types import Mode
from perfmodel.zoo import capture_job

DEVICE = AcceleratorSpec(
    name="cpu-test-2c",
    kind="cpu",
    vendor="Test",
    architecture="Test",
    form_factor="socket",
    year=2025,
    peak_flops={"fp32": 200e9},
    memory_bytes=16e9,
    bandwidth_bytes_per_s=30e9,
    core_count=2,
    sources={"*": "made up for this test"},
)
#: Each of another family, all captured in a fraction of a second.
MODELS = ("zoo/mlp", "zoo/ncf", "zoo/lstm-lm", "zoo/resnet18-cifar")


def _run(*args: str, code: int = 0) -> Result:
    # Public measurements of this machine, if any, are not what these tests learn from.
    shown = CliRunner(env={"PERFMODEL_DATA": None}).invoke(cli, list(args))
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def _measurement(job: Job, workload: Workload, family: str, step_time_s: float) -> Measurement:
    step = StepRecord(
        workload_hash=workload.content_hash,
        graph_hash=workload.graph.content_hash,
        model=job.label,
        family=family,
        job=job_to_dict(job),
        accelerator=DEVICE.name,
        mode=job.mode,
        batch_size=job.batch_size,
        precision=job.precision,
        memory_format=job.memory_format,
        compiler=job.compiler,
        step_time_s=step_time_s,
        samples_s=(step_time_s,) * 3,
        low_s=step_time_s,
        high_s=step_time_s,
        spread=0.0,
        noisy=False,
        warmup_steps=1,
        peak_memory_bytes=None,
        provenance=Provenance(
            accelerator=spec_to_dict(DEVICE),
            software={},
            measured_at="2025-01-01T00:00:00+00:00",
            source="made up for this test",
            threads=2,
        ),
    )
    return Measurement(step=step)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return records of a machine that always reaches half of the roofline."""
    folder = tmp_path_factory.mktemp("learning") / "profiles"
    store = ProfileStore(folder)
    for model in MODELS:
        for mode in Mode:
            for batch_size in (1, 4):
                job = Job(model=model, mode=mode, batch_size=batch_size)
                graph = capture_job(job)
                workload = Workload(
                    graph=graph, accelerator=DEVICE, mode=mode, batch_size=batch_size, threads=2
                )
                bound_s = float(RooflinePredictor().predict([workload])[0])
                store.append(_measurement(job, workload, model, 2 * bound_s), graph)
    store.compact()
    return folder


@pytest.fixture(scope="module")
def models(profiles: Path) -> Path:
    """Return a folder with one model, trained by the command."""
    folder = profiles.parent / "models"
    shown = _run(
        "train",
        "--profiles",
        str(profiles),
        "--models",
        str(folder),
        "--member",
        "efficiency",
        "--json",
    )
    said = json.loads(shown.stdout)
    assert said["samples"] == len(MODELS) * 2 * 2
    assert Path(said["folder"]).parent == folder / "default"
    assert "fitted efficiency" in shown.stderr
    return folder


def test_models_lists_what_was_trained(models: Path) -> None:
    said = json.loads(_run("models", "--models", str(models), "--json").stdout)
    assert [facts["serving"] for facts in said["models"]] == [True]
    assert said["problems"] == []
    assert DEVICE.name in _run("models", "--models", str(models)).stdout


def test_a_trained_model_answers(models: Path) -> None:
    words = ["timm/resnet18", "--batch-size", "4", "--mode", "training", "--on", "L4", "--json"]
    found = json.loads(_run("predict", *words, "--models", str(models)).stdout)
    assert found["model_version"].startswith("default/")
    assert found["throughput"]["low"] < found["throughput"]["samples_per_second"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of public tables: made-up figures of four tiny models on two devices."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "timm").mkdir()
    header = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size\n"
    names = ("test_vit", "test_resnet", "test_convnext", "test_efficientnet")
    for device, speed in (("rtx4090", 40_000.0), ("rtx3090", 25_000.0)):
        rows = [
            f"{name},160,{speed / (1 + place)},{1000 * batch * (1 + place) / speed},{batch}\n"
            for place, name in enumerate(names)
            for batch in (8, 32)
        ]
        table = folder / "timm" / f"benchmark-infer-amp-nchw-pt240-cu124-{device}.csv"
        table.write_text(header + "".join(rows) + "no_such_net,160,zero,1.0,8\n")
    return folder


@pytest.mark.usefixtures("captured_here")
def test_train_learns_from_public_tables_too(
    profiles: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    words = ["--profiles", str(profiles), "--models", str(tmp_path / "models"), "--json"]
    shown = _run("train", *words, "--member", "efficiency", "--data", str(tables), "--workers", "1")
    manifest = json.loads((Path(json.loads(shown.stdout)["folder"]) / "manifest.json").read_text())
    # Four models by two batch sizes on each of two devices, and the profiles.
    counts = manifest["joint"]["devices"]
    assert counts == {"RTX-4090": 8, "RTX-3090": 8, DEVICE.name: len(MODELS) * 2 * 2}
    assert "2 rows of timm were not understood" in shown.stderr
    asked = ["timm/test_resnet", "--batch-size", "32", "--on", "RTX-4090", "--json"]
    said = json.loads(_run("predict", *asked, "--models", str(tmp_path / "models")).stdout)
    assert said["model_version"].startswith("default/")
    assert said["basis"] in ("calibrated", "transferred", "interpolated")


def test_a_damaged_model_is_named_and_answers_go_on(models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "models"
    for path in models.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(models)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    manifest = next(copy.rglob("manifest.json"))
    manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
    shown = _run("models", "--models", str(copy), code=4)
    assert "digest does not match" in shown.stderr
    answer = _run("predict", "timm/resnet18", "--on", "L4", "--json", "--models", str(copy))
    assert json.loads(answer.stdout)["basis"] == "analytical"


def test_evaluate_scores_beside_the_baselines_and_writes_the_report(
    profiles: Path, tmp_path: Path
) -> None:
    report = tmp_path / "accuracy.md"
    words = ["--profiles", str(profiles), "--member", "efficiency"]
    shown = _run("evaluate", *words, "--report", str(report))
    for word in ("leave-family-out", "ensemble", "efficiency", "constant", "roofline", "MAPE"):
        assert word in shown.stdout
    assert f"perfmodel evaluate --report {report}" in report.read_text()
    summary = json.loads(_run("evaluate", *words, "--json").stdout)
    # Every time is twice its roofline, so the roofline is off by half: |T/2 / T - 1| = 0.5.
    assert summary["overall"]["roofline"]["mape"] == pytest.approx(0.5, abs=1e-6)
    # No single rate holds for an MLP and a ResNet.
    assert summary["overall"]["ensemble"]["mape"] < summary["overall"]["constant"]["mape"]


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    for command in ("train", "evaluate"):
        shown = _run(command, "--profiles", str(tmp_path), code=4)
        assert f"No usable measurement in {tmp_path}, which holds none." in shown.stderr


def test_an_unknown_member_is_answered_with_the_known(profiles: Path) -> None:
    shown = _run("evaluate", "--profiles", str(profiles), "--member", "gbtd", code=2)
    assert "Did you mean 'gbdt'" in shown.stderr


def test_profile_measures_keeps_going_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lock of its own: the test must not wait for a campaign on the same machine.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    jobs = tmp_path / "jobs.jsonl"
    lines = [
        {"model": name, "mode": "inference", "batch_size": 1} for name in ("zoo/mlp", "zoo/no")
    ]
    jobs.write_text("\n".join(json.dumps(line) for line in lines))
    out = tmp_path / "profiles"
    words = ["profile", str(jobs), "--out", str(out), "--threads", "1", "--json"]
    first = _run(*words, code=1)
    said = json.loads(first.stdout)
    assert (said["finished"], said["skipped"], said["failed"]) == (1, 0, 1)
    assert "Unknown model 'zoo/no'" in first.stderr
    assert json.loads(_run(*words).stdout)["skipped"] == 2
    steps = ProfileStore(out).steps()
    assert [step.model for step in steps] == ["zoo/mlp"]
