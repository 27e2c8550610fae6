"""The command as a whole: help, exit codes, how errors are told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from perfmodel.cli import cli
from perfmodel.cli.app import COMMANDS
from perfmodel.cli.failures import exit_code_of, problem
from perfmodel.errors import (
    DamagedArtifactError,
    InvalidInputError,
    MissingExtraError,
    UnknownModelError,
)

ROOT = Path(__file__).resolve().parents[2]
MANUAL = (ROOT / "docs" / "cli.md").read_text()


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"])
    assert shown.exit_code == 0
    for name, line in COMMANDS.items():
        # Long lines go on in the next one.
        words = r"\s+".join(re.escape(word) for word in line.split())
        assert re.search(rf"^  {name} +{words}$", shown.output, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_manual(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert re.search(rf"^\| `{name}` \|", MANUAL, re.MULTILINE)
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert option in MANUAL, f"docs/cli.md does not mention {option} of {name}"


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "options",
    [["probe", "--minutes"], ["profile", "zoo/mlp", "--timeout"],
     ["campaign", "create", "zoo/mlp", "--budget"]],
)  # fmt: skip
def test_what_is_no_finite_number_is_refused(options: list[str], number: str) -> None:
    """No bound would catch it: a probe of nan minutes never ended."""
    refused = CliRunner().invoke(cli, [*options, number])
    assert refused.exit_code == 2
    assert f"{number} is no finite number" in refused.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_debugged_and_prints_json(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for path, part in _parts(name, command):
        options = {option for parameter in part.params for option in parameter.opts}
        assert "--debug" in options
        # A service prints lines, and an export what others read.
        assert "--json" in options or path.split()[:2] in (["serve"], ["campaign", "export"])


def _parts(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command, or what is in a group and the groups in it, with its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, part in command.commands.items():
        yield from _parts(f"{path} {name}", part)


@pytest.mark.parametrize("name", ["campaign", "measure"])
def test_a_group_without_a_command_names_its_commands(name: str) -> None:
    shown = CliRunner().invoke(cli, [name])
    assert shown.exit_code == 2 and shown.stdout == ""
    assert f"Error: cli {name} needs one of its commands: " in shown.stderr


@pytest.mark.parametrize("name", ["predict", "explain", "curve", "plans"])
def test_a_second_placement_is_not_dropped(name: str) -> None:
    shown = CliRunner().invoke(cli, [name, "zoo/mlp", "--on", "T4", "--on", "A100"])
    assert shown.exit_code == 2 and shown.stdout == ""
    assert "got T4, A100. `perfmodel compare` ranks several." in shown.stderr


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    shown = CliRunner().invoke(cli, ["predct"])
    assert shown.exit_code == 2
    assert "Did you mean 'predict'?" in shown.stderr
    assert shown.stdout == ""


def test_a_misspelt_option_is_bad_usage() -> None:
    shown = CliRunner().invoke(cli, ["devices", "--sorces"])
    assert shown.exit_code == 2
    assert "--sources" in shown.stderr


def test_exit_codes_tell_kinds_of_errors_apart() -> None:
    assert exit_code_of(InvalidInputError("x")) == 2
    assert exit_code_of(click.UsageError("x")) == 2
    assert exit_code_of(MissingExtraError("x", extra="train")) == 3
    assert exit_code_of(DamagedArtifactError("x")) == 4
    assert exit_code_of(PermissionError(13, "Permission denied", "models")) == 4
    assert exit_code_of(ZeroDivisionError("x")) == 5


def test_a_problem_points_and_suggests() -> None:
    error = UnknownModelError("timm/resnt50", known=["timm/resnet50"], pointer="/job/model")
    found = problem(error)
    assert found["type"] == "urn:perfmodel:problem:unknown-model"
    assert found["errors"][0]["pointer"] == "/job/model"
    assert found["did_you_mean"] == ["timm/resnet50"]


def test_a_defect_is_one_line_without_debug_and_a_traceback_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_down(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("perfmodel.devices.detect.describe_machine", break_down)
    shown = CliRunner().invoke(cli, ["doctor"])
    assert shown.exit_code == 5
    assert shown.stderr.count("\n") == 1
    assert "ZeroDivisionError" in shown.stderr
    debugged = CliRunner().invoke(cli, ["doctor", "--debug"])
    assert isinstance(debugged.exception, ZeroDivisionError)


def test_errors_are_json_where_json_was_asked_for() -> None:
    shown = CliRunner().invoke(cli, ["devices", "no such thing", "--json"])
    assert shown.exit_code == 2
    assert json.loads(shown.stdout)["exit_code"] == 2
    assert shown.stderr == ""


def test_the_installed_command_answers() -> None:
    script = Path(sys.executable).with_name("perfmodel")
    run = subprocess.run(
        [str(script), "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert re.fullmatch(r"perfmodel, version \d+\.\d+\.\d+\n", run.stdout)


def test_a_closed_pipe_is_not_complained_about() -> None:
    script = Path(sys.executable).with_name("perfmodel")
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run(
        [str(script), "devices"], stdout=write, stderr=subprocess.PIPE, check=False, cwd=ROOT
    )
    os.close(write)
    assert run.stderr == b""
