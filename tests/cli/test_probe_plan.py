"""``perfmodel probe-plan``, over a few small jobs that are captured for real."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_models import small_model

from perfmodel.cli import cli
from perfmodel.predictors.joint.joint_store import load_joint
from perfmodel.predictors.serving.serving_parts import JOINT
from perfmodel.requests import parse_request

pytestmark = pytest.mark.usefixtures("captured_here")

JOBS = [
    {"model": "timm/test_vit", "mode": "inference", "batch_size": 64},
    {"model": "timm/test_resnet", "mode": "inference", "batch_size": 64},
    {"model": "timm/test_resnet", "mode": "inference", "batch_size": 1},
    # Far more than any memory holds.
    {"model": "timm/test_resnet", "mode": "inference", "batch_size": 16_000_000},
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def jobs(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PERFMODEL_CACHE", str(cache))
    monkeypatch.setenv("PERFMODEL_MODELS", str(tmp_path / "no-models"))
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(JOBS))
    return str(path)


def test_the_plan_holds_requests_that_can_be_asked(jobs: str) -> None:
    shown = CliRunner().invoke(cli, ["probe-plan", "L4", "-k", "2", "--jobs", jobs, "--json"])
    assert shown.exit_code == 0, shown.stderr
    plan = json.loads(shown.stdout)
    assert (plan["accelerator"], plan["candidates"], len(plan["probes"])) == ("L4", 3, 2)
    assert plan["model_version"] is None
    errors = [plan["expected_error_before"]]
    for probe in plan["probes"]:
        job, placement = parse_request({key: probe[key] for key in ("job", "placement")})
        assert job.batch_size in (1, 64)
        assert placement.accelerator_count == 1
        errors.append(probe["expected_error_after"])
    assert errors == sorted(errors, reverse=True)


def test_the_table_names_the_workloads(jobs: str) -> None:
    shown = CliRunner().invoke(cli, ["probe-plan", "L4", "-k", "1", "--jobs", jobs])
    assert shown.exit_code == 0, shown.stderr
    assert "Measure these on L4" in shown.stdout
    assert "inference, batch" in shown.stdout


def test_the_installed_model_says_what_it_does_not_know(jobs: str, tmp_path: Path) -> None:
    version = small_model(tmp_path / "models")
    more = ["-k", "1", "--jobs", jobs, "--models", str(tmp_path / "models"), "--json"]
    shown = CliRunner().invoke(cli, ["probe-plan", "L4", *more])
    assert shown.exit_code == 0, shown.stderr
    plan = json.loads(shown.stdout)
    assert plan["model_version"] == f"default/{version.name}"
    joint = load_joint(version / JOINT)
    # What is left of the error cannot fall below what no coefficient of a device explains.
    assert joint.noise_ < plan["probes"][0]["expected_error_after"]
    assert plan["probes"][0]["expected_error_after"] < plan["expected_error_before"]
    # It learned nothing about TPUs: the assumed spreads stand in.
    shown = CliRunner().invoke(cli, ["probe-plan", "TPU-v4", *more])
    assert json.loads(shown.stdout)["model_version"] is None


def test_bad_input_is_refused_with_what_to_do(jobs: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["probe-plan", "L44", "--jobs", jobs])
    assert shown.exit_code == 2
    assert "Did you mean" in shown.stderr
    (tmp_path / "jobs.json").write_text("{}")
    shown = CliRunner().invoke(cli, ["probe-plan", "L4", "--jobs", jobs])
    assert shown.exit_code == 2
    assert "JSON list" in shown.stderr
