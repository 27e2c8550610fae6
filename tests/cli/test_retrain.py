"""``perfmodel retrain``: from a folder of records to a version that serves, and looking at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from migrated import migrated_sqlite
from retraining_world import FEW, QUICK, RetrainingWorld, write_profiles

from perfmodel.cli import cli
from perfmodel.store.retraining import RetrainingLogStore

SETTINGS = json.dumps({**QUICK, "members": ["efficiency"]})


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return where commands find the database, in a folder with records."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFMODEL_DATA", raising=False)
    monkeypatch.delenv("PERFMODEL_MODELS", raising=False)
    write_profiles(tmp_path / "profiles", FEW)
    return ["--database", migrated_sqlite(tmp_path)]


def _run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_a_model_is_learned_judged_and_looked_at(at: list[str], tmp_path: Path) -> None:
    where = [*at, "--models", str(tmp_path / "models"), "--processes", "1", "--json"]
    made = json.loads(_run("retrain", *where, "--settings", SETTINGS, "--why", "new").stdout)
    assert (made["state"], made["why"], made["fraction"]) == ("done", "new", 1.0)
    assert made["decision"]["accepted"] and set(made["phases"].values()) == {"done"}
    listed = json.loads(_run("retrain", "list", *at, "--json").stdout)["retrainings"]
    assert [one["id"] for one in listed] == [made["id"]]
    assert made["version"] in _run("models", "--models", str(tmp_path / "models"), "--json").stdout
    shown = _run("retrain", "show", made["id"], *at).stdout
    assert "publish (100 %)" in shown and "| group | steps |" in shown
    assert "fit: is finished" in _run("retrain", "log", made["id"], *at).stdout
    # What was learned from is gone: the next one fails, and says why.
    for path in (tmp_path / "profiles").rglob("*.parquet"):
        path.unlink()
    failed = _run("retrain", *where, "--settings", SETTINGS, code=4)
    assert "No usable measurement" in json.loads(failed.stdout)["reason"]


def test_one_is_entered_for_others_and_cancelled(at: list[str], tmp_path: Path) -> None:
    entered = json.loads(_run("retrain", "--later", *at, "--json", "--without", "timm").stdout)
    assert (entered["state"], entered["settings"]["without"]) == ("waiting", ["timm"])
    again = _run("retrain", "--later", *at, "--json")
    assert json.loads(again.stdout)["id"] == entered["id"]
    assert "is waiting already" in again.stderr
    world = RetrainingWorld(url=at[1], folder=tmp_path)
    RetrainingLogStore(world.database.connections).add(entered["id"], 1, ["said"])
    world.close()
    assert json.loads(_run("retrain", "log", entered["id"], *at, "--json").stdout)["text"] == "said"
    assert "is cancelled" in _run("retrain", "cancel", entered["id"], *at).stdout
    late = _run("retrain", "cancel", entered["id"], *at, code=2)
    assert "it is cancelled" in late.stderr
    assert "no retraining 'x'" in _run("retrain", "show", "x", *at, code=2).stderr
    where = ["--models", str(tmp_path / "models"), "--json"]
    assert _run("retrain", "work", "--until-idle", *at, *where).stdout == '{\n  "done": 0\n}\n'


def test_who_enters_one_for_others_says_nothing_of_where_it_is_done(
    at: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = _run("retrain", "--later", *at, "--profiles", "mine", "--memory", "2", code=2)
    assert "leave --profiles, --memory to `perfmodel retrain work`" in refused.stderr
    assert json.loads(_run("retrain", "list", *at, "--json").stdout)["retrainings"] == []
    # What the environment says is for all commands there.
    monkeypatch.setenv("PERFMODEL_RETRAINING_PROFILES", str(tmp_path / "profiles"))
    assert "is waiting" in _run("retrain", "--later", *at).stdout


@pytest.mark.parametrize("settings", ["{", "[]", '{"flods": 3}'])
def test_wrong_settings_are_refused_before_anything_is_entered(
    at: list[str], settings: str
) -> None:
    _run("retrain", *at, "--settings", settings, code=2)
    assert json.loads(_run("retrain", "list", *at, "--json").stdout)["retrainings"] == []


@pytest.mark.parametrize(
    ("name", "said"), [("kernels", "perfmodel train-kernels"), ("../x", "cannot be the name")]
)
def test_a_name_that_no_model_of_steps_can_have_is_refused(
    at: list[str], name: str, said: str
) -> None:
    assert said in _run("retrain", *at, "--later", "--name", name, code=2).stderr
    assert json.loads(_run("retrain", "list", *at, "--json").stdout)["retrainings"] == []
    assert said in _run("train", "--name", name, code=2).stderr


def test_who_looks_needs_no_public_measurements(
    at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMODEL_DATA", "nowhere")
    assert json.loads(_run("retrain", "list", *at, "--json").stdout)["retrainings"] == []
    said = _run("retrain", *at, "--later", code=2).stderr
    assert "PERFMODEL_DATA is 'nowhere', which is no folder" in said


def test_a_mistyped_folder_of_records_is_refused_beside_a_right_one(at: list[str]) -> None:
    folders = ["--profiles", "profiles", "--profiles", "profils"]
    said = _run("retrain", "work", "--until-idle", *at, *folders, code=2).stderr
    assert "--profiles or PERFMODEL_RETRAINING_PROFILES is 'profils', which is no folder" in said
