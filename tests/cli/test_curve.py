"""``perfmodel curve``: for people, and as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from perfmodel.cli import cli
from perfmodel.cli.asking.curve import print_curve
from perfmodel.estimator import Estimator
from perfmodel.estimator.tables.curve import Curve, CurveQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode

#: No trained model: the analytical one answers, whatever this checkout ships.
MODELS = ["--models", "no-such-folder"]
RESNET = ["timm/resnet18", "--batch-size", "4", "--mode", "training"]


def _run(*args: str) -> str:
    shown = CliRunner().invoke(cli, [*args, *MODELS])
    assert shown.exit_code == 0, (shown.stdout, shown.stderr, shown.exception)
    return shown.stdout


def test_its_points_are_what_predict_says() -> None:
    curve = json.loads(_run("curve", *RESNET, "--on", "T4", "--most", "4", "--json"))
    assert curve["counts"] == [1, 2, 4]
    assert curve["fits"] == [True] * 3
    for position, placement in enumerate(("T4", "2xT4", "4xT4")):
        one: dict[str, Any] = json.loads(_run("predict", *RESNET, "--on", placement, "--json"))
        for name in ("step_time_s", "compute_time_s", "sync_time_s"):
            assert curve[name][position] == pytest.approx(one[name])


def test_people_see_what_communicates_and_what_fits() -> None:
    head, *rows = _run("curve", *RESNET, "--on", "T4", "--most", "4").splitlines()[:4]
    assert re.split(r"  +", head.strip())[-4:] == ["step", "sync", "of ideal", "fits"]
    # One communicates with nobody.
    assert [re.split(r"  +", row.strip())[4] == "0 s" for row in rows] == [True, False, False]
    assert [row.split()[-1] for row in rows] == ["yes"] * 3
    huge = _run("curve", *RESNET[:1], "--batch-size", "4096", *RESNET[3:], "--on", "T4")
    assert huge.splitlines()[1].split()[-1] == "NO"


@pytest.mark.parametrize("place", ["p4d.24xlarge", "8xA100-SXM4-40GB", "A100-SXM4-40GB zero=1"])
def test_a_placement_in_the_place_of_an_accelerator_is_told_what_to_name(place: str) -> None:
    refused = CliRunner().invoke(cli, ["curve", *RESNET, "--on", place, *MODELS])
    assert refused.exit_code == 2
    assert f"name one, such as 'A100-SXM4-40GB', not {place!r}" in refused.stderr


def test_a_largest_count_beyond_all_is_told_as_it_was_stated() -> None:
    for most in ("0", "123456789"):
        shown = CliRunner().invoke(cli, ["curve", *RESNET, "--on", "T4", "--most", most, *MODELS])
        assert shown.exit_code == 2 and f"got {most}." in shown.stderr


@pytest.fixture
def without_memory() -> Curve:
    """Return the curve of a job that is known by a name and one observed step."""
    job = Job(model=None, job_type="recommender", mode=Mode.TRAINING, batch_size=64)
    seen = Observation(placement=parse_placement("T4"), batch_size=64, step_time_s=0.3)
    question = CurveQuestion(accelerator="T4", counts=(1, 4))
    return Estimator.from_folder("no-such-folder").curve(job, question, (seen,))


def test_a_memory_that_is_not_known_is_said(
    without_memory: Curve, capsys: pytest.CaptureFixture[str]
) -> None:
    assert without_memory.to_dict()["fits"] == [None, None]
    print_curve(without_memory.to_dict())
    _, *rows = capsys.readouterr().out.splitlines()[:3]
    assert [row.split()[-1] for row in rows] == ["?", "?"]
