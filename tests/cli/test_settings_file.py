"""The file of settings, files of secrets, and which of several places counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfmodel.cli import cli
from perfmodel.cli.options import store_options
from perfmodel.cli.running.settings_file import known_settings, read_settings_into, unread_variables
from perfmodel.errors import InvalidInputError, UnknownSettingError
from perfmodel.retraining.settings import parse_settings
from service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def _read(tmp_path: Path, text: str, **environment: str) -> dict[str, str]:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    read_settings_into(environment, file)
    return environment


def test_values_become_variables(tmp_path: Path) -> None:
    text = """
    rate_per_s = 2.5
    insecure = true
    hosts = ["perfmodel.example"]
    database = "postgresql://host/perfmodel"
    kubernetes_accelerators = {odd = "T4"}
    """
    assert _read(tmp_path, text) == {
        "PERFMODEL_RATE_PER_S": "2.5",
        "PERFMODEL_INSECURE": "true",
        "PERFMODEL_HOSTS": '["perfmodel.example"]',
        "PERFMODEL_DATABASE": "postgresql://host/perfmodel",
        "PERFMODEL_KUBERNETES_ACCELERATORS": '{"odd": "T4"}',
    }


def test_what_stands_nearer_counts(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:secret@host/db\n")
    near = {"PERFMODEL_RATE_PER_S": "9", "PERFMODEL_DATABASE_FILE": str(secret)}
    found = _read(tmp_path, 'rate_per_s = 1\nburst_s = 4.0\ndatabase = "other.db"', **near)
    assert found["PERFMODEL_RATE_PER_S"] == "9"
    assert found["PERFMODEL_BURST_S"] == "4"
    # Without the line end of the file; and the secret of the environment is nearer than the file.
    assert found["PERFMODEL_DATABASE"] == "postgresql://me:secret@host/db"


def test_an_empty_variable_states_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:secret@host/db")
    empty = {"PERFMODEL_DATABASE": "", "PERFMODEL_RATE_PER_S": ""}
    found = _read(tmp_path, 'rate_per_s = 2\ndatabase = "other.db"', **empty)
    assert found == {"PERFMODEL_DATABASE": "other.db", "PERFMODEL_RATE_PER_S": "2"}
    named = {"PERFMODEL_DATABASE": "", "PERFMODEL_DATABASE_FILE": str(secret)}
    assert _read(tmp_path, "", **named)["PERFMODEL_DATABASE"] == "postgresql://me:secret@host/db"
    file = {"PERFMODEL_DATABASE_FILE": ""}
    assert _read(tmp_path, 'database = "other.db"', **file)["PERFMODEL_DATABASE"] == "other.db"
    monkeypatch.setenv("PERFMODEL_RATE_PER_S", "")
    assert Settings().rate_per_s == Settings.model_fields["rate_per_s"].default
    monkeypatch.setenv("PERFMODEL_MODELS_OPTIONS", "")
    assert store_options() == {}


def test_a_file_of_settings_may_name_files_of_secrets(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://secret@host/db")
    text = f'database_file = "{secret}"'
    assert _read(tmp_path, text)["PERFMODEL_DATABASE"] == "postgresql://secret@host/db"
    stated = _read(tmp_path, text, PERFMODEL_DATABASE="mine.db")
    assert stated["PERFMODEL_DATABASE"] == "mine.db"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("log_levle = 'debug'", "Did you mean 'log_level'"),
        ("[server]\nport = 1", "Unknown setting 'server'"),
        ("rate_per_s =", "is no TOML"),
        ("data = 2026-01-01", "must be a text, a number"),
        ("database_file = '/none/such'", "cannot be read"),
        ("database = 'a'\ndatabase_file = 'b'", "both stand in"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        _read(tmp_path, text)


def test_a_secret_of_the_environment_is_a_setting() -> None:
    with pytest.raises(UnknownSettingError, match="databse"):
        read_settings_into({"PERFMODEL_DATABSE_FILE": "/run/secrets/url"})


def test_no_setting_has_a_name_that_means_a_secret() -> None:
    assert not [name for name in known_settings() if name.endswith("_file")]


def test_commands_read_it_too(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f'keys = "{tmp_path}/my-keys.json"\n')
    told = subprocess.run(
        [sys.executable, "-m", "perfmodel", "keys", "create", "me", "--scope", "admin", "--json"],
        env={**os.environ, "PERFMODEL_SETTINGS": str(settings)},
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert json.loads(told.stdout)["name"] == "me"
    assert (tmp_path / "my-keys.json").exists()


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return what runs ``perfmodel serve`` with some variables; whatever it serves is a failure."""

    def run(*arguments: str, **stated: str) -> Result:
        return CliRunner().invoke(cli, ["serve", *arguments], env=stated)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("service.serve._Server.run", lambda server: pytest.fail("it serves"))
    return run


def test_a_value_that_no_setting_can_have_is_named(
    tmp_path: Path, told: Callable[..., Result]
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("listen_port = 0\nburst_s = -1\nlog_format = 'xml'\n")
    refused = told("--settings", str(settings))
    assert refused.exit_code == 2
    assert "PERFMODEL_BURST_S" in refused.stderr
    assert "PERFMODEL_LOG_FORMAT" in refused.stderr


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"PERFMODEL_RATE_PER_S": "nan"}, "PERFMODEL_RATE_PER_S: Input should be a finite number"),
        (
            {"PERFMODEL_HOSTS": "perfmodel.internal"},
            """PERFMODEL_HOSTS is JSON, as ["one", "two"]; got 'perfmodel.internal'.""",
        ),
        (
            {"PERFMODEL_KUBERNETES_ACCELERATORS": "odd=T4"},
            'ACCELERATORS is JSON, as {"name": "value"}; it is none: Expecting value',
        ),
        ({"PERFMODEL_TLS_CERTIFICATE": "none.pem"}, "PERFMODEL_TLS_CERTIFICATE none.pem cannot be"),
        ({"PERFMODEL_TLS_KEY": "none.pem"}, "without PERFMODEL_TLS_CERTIFICATE"),
        ({"PERFMODEL_DATABASE": "mysql://host/perfmodel"}, "It is SQLite (sqlite:///"),
    ],
)
def test_what_a_service_cannot_be_told_is_named(
    stated: dict[str, str], said: str, told: Callable[..., Result]
) -> None:
    refused = told("--port", "0", **stated)
    assert refused.exit_code in (2, 4)
    assert said in refused.stderr


def test_what_is_printed_can_be_read_again(tmp_path: Path, told: Callable[..., Result]) -> None:
    stated = {
        "PERFMODEL_RATE_PER_S": "5.5",
        "PERFMODEL_HOSTS": '["a.example"]',
        "PERFMODEL_KUBERNETES_ACCELERATORS": '{"odd one": "T4"}',
    }
    secret = {"PERFMODEL_DRIFT_WEBHOOK": "https://hooks.example/secret"}
    printed = told("--print-settings", **stated, **secret)
    assert printed.exit_code == 0
    assert "secret" not in printed.stdout
    found = _read(tmp_path, printed.stdout)
    assert {name: found[name] for name in stated} == stated
    names = {line.lstrip("# ").split(" = ")[0] for line in printed.stdout.splitlines()}
    assert names == known_settings() - {"cache", "key", "url"}


def test_retrainings_can_have_what_the_documentation_lets_them_have(tmp_path: Path) -> None:
    (text,) = re.findall(
        r"```toml\n(# settings.toml.*?)```", (ROOT / "docs/running.md").read_text(), re.S
    )
    (line,) = (one for one in text.splitlines() if one.startswith("retrain_settings"))
    stated = json.loads(_read(tmp_path, line)["PERFMODEL_RETRAIN_SETTINGS"])
    assert parse_settings(stated).to_dict().items() >= stated.items()


def test_misspelt_variables_are_said_by_every_command() -> None:
    odd = {"PERFMODEL_ULR": "http://127.0.0.1:1", "PERFMODEL_KUBERNETES_NODE": "cluster"}
    done = subprocess.run(
        [sys.executable, "-m", "perfmodel", "devices", "T4", "--json"],
        cwd=ROOT, env={**os.environ, **odd}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if line.startswith(tuple(odd))]
    assert said == [
        "PERFMODEL_KUBERNETES_NODE is no setting, and is not read. "
        "Did you mean PERFMODEL_KUBERNETES_NODES?",
        "PERFMODEL_ULR is no setting, and is not read. Did you mean PERFMODEL_URL?",
    ]
    assert json.loads(done.stdout)


def test_variables_of_settings_commands_and_kubernetes_are_passed_over() -> None:
    links = {
        "PERFMODEL_SERVICE_HOST": "10.0.0.1", "PERFMODEL_SERVICE_PORT": "8000",
        "PERFMODEL_SERVICE_PORT_HTTP": "8000", "PERFMODEL_PORT": "tcp://10.0.0.1:8000",
        "PERFMODEL_PORT_8000_TCP": "tcp://10.0.0.1", "PERFMODEL_PORT_8000_TCP_ADDR": "10.0.0.1",
        "PERFMODEL_WEBHOOK_SERVICE_PORT": "443", "PERFMODEL_WEBHOOK_PORT_443_TCP_PROTO": "tcp",
    }  # fmt: skip
    settings = {f"PERFMODEL_{name.upper()}": "" for name in known_settings()}
    files = {"PERFMODEL_DATABASE_FILE": "/run/secrets/url"}
    assert unread_variables({**links, **settings, **files, "PATH": "", "PERFMODELS": ""}) == []


def test_a_wrong_value_names_the_variable_that_says_it() -> None:
    asked = [sys.executable, "-m", "perfmodel", "serve"]
    env = {**os.environ, "PERFMODEL_WORKERS": "many"}
    done = subprocess.run(asked, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "for '--workers': 'many' is not" in done.stderr
    assert "That is what PERFMODEL_WORKERS says." in done.stderr
    stated = [*asked, "--workers", "few"]
    done = subprocess.run(stated, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert "'few' is not" in done.stderr and "PERFMODEL_WORKERS" not in done.stderr
