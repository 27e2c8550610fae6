"""The files of compose: read by the program, and its scripts run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import PATIENCE_S

from perfmodel.cli.running.settings_file import known_settings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "compose"


def _compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return found


def _reads_compose() -> bool:
    """Tell whether there is a docker-compose, and none of the first major version."""
    program = shutil.which("docker-compose")
    if program is None:
        return False
    told = subprocess.run(
        [program, "version", "--short"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return told.returncode == 0 and not told.stdout.strip().removeprefix("v").startswith("1.")


@pytest.mark.skipif(
    not _reads_compose(), reason="no docker-compose of today is installed: make deploy-check"
)
def test_compose_reads_its_file(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    subprocess.run(
        ["sh", "deploy/compose/make-secrets.sh"], cwd=tmp_path, check=True, timeout=PATIENCE_S
    )
    command = ["docker-compose", "-f", "deploy/compose/compose.yaml", "config"]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    read = yaml.safe_load(told.stdout)
    service = read["services"]["perfmodel"]
    assert service["build"]["target"] == "full"
    assert service["read_only"] is True
    assert service["environment"]["PERFMODEL_DATABASE_FILE"] == "/run/secrets/database-url"


def test_every_variable_is_a_setting() -> None:
    for service in ("perfmodel", "make-keys"):
        for name in _compose()["services"][service]["environment"]:
            setting = name.removeprefix("PERFMODEL_").removesuffix("_FILE").lower()
            assert setting in known_settings(), name


def test_what_is_mounted_is_there() -> None:
    for service in _compose()["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            named = source in _compose()["volumes"]
            assert named or (FOLDER / source).is_dir(), volume
        assert set(service.get("secrets", ())) <= set(_compose()["secrets"])


def test_the_target_is_one_of_the_dockerfile() -> None:
    stages = re.findall(r"^FROM .* AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    target = _compose()["services"]["perfmodel"]["build"]["target"]
    assert re.fullmatch(r"\$\{PERFMODEL_IMAGE_TARGET:-(\w+)\}", target).group(1) in stages  # type: ignore[union-attr]
    assert stages[-1] == "full"


def test_secrets_are_made_once(tmp_path: Path) -> None:
    script = shutil.copy(FOLDER / "make-secrets.sh", tmp_path)
    secrets = tmp_path / "secrets"
    subprocess.run(["sh", script], check=True, timeout=PATIENCE_S)
    made = {path.name: path.read_text() for path in secrets.iterdir()}
    assert set(made) == set(_compose()["secrets"])
    assert f":{made['database-password']}@postgres/" in made["database-url"]
    assert len(made["database-password"]) == 48
    assert made["database-password"] != made["grafana-password"]
    assert secrets.stat().st_mode & 0o077 == 0
    subprocess.run(["sh", script], check=True, timeout=PATIENCE_S)
    assert {path.name: path.read_text() for path in secrets.iterdir()} == made


def test_keys_are_made_once(tmp_path: Path) -> None:
    """What make-keys runs, with a database and a folder of this test."""
    service = _compose()["services"]["make-keys"]
    (script,) = service["command"]
    script = script.replace("/run/keys", str(tmp_path / "keys")).replace("$$", "$")
    (tmp_path / "keys").mkdir()
    url = tmp_path / "database-url"
    url.write_text(f"sqlite:///{tmp_path}/perfmodel.db")
    (tmp_path / "perfmodel").write_text(f'#!/bin/sh\nexec {sys.executable} -m perfmodel "$@"\n')
    (tmp_path / "perfmodel").chmod(0o755)
    # What the process of the tests says of its own service is not said of this one.
    own = {name: text for name, text in os.environ.items() if not name.startswith("PERFMODEL_")}
    environment = {
        **own,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PERFMODEL_DATABASE_FILE": str(url),
    }
    for _ in range(2):
        subprocess.run(
            [*service["entrypoint"], script],
            env=environment, cwd=ROOT, check=True, timeout=PATIENCE_S, capture_output=True,
        )  # fmt: skip
    keys = {path.name: path.read_text() for path in (tmp_path / "keys").iterdir()}
    assert set(keys) == {"admin", "prometheus"}
    assert all(key.startswith("pmk_") for key in keys.values())
    assert (tmp_path / "keys.json").read_text().count('"key_id"') in (0, 2)
