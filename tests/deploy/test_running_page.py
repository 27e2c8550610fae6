"""What docs/running.md tells to type is done, one after the other, and what it names is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import yaml
from migrated import migrated_sqlite
from postgresql import PostgresqlServer

from perfmodel.cli.running.prices import read_price_list
from perfmodel.cli.running.settings_file import read_settings_into
from perfmodel.devices.catalog import Catalog
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import upgrade

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "running.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def _environment(folder: Path) -> Mapping[str, str]:
    """Return an environment in which `perfmodel` is the one of this checkout."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "perfmodel"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m perfmodel "$@"\n')
    program.chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def test_every_command_is_done(tmp_path: Path) -> None:
    """Prices are set after the backup, and so are gone after the roll-back."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    database = migrated_sqlite(tmp_path).removeprefix("sqlite:///")
    Path(database).rename(tmp_path / "perfmodel.db")
    printed, upgrade, back, prices = _blocks("sh")
    script = "\n".join(("set -eu", printed, upgrade, prices, "echo ---", back, "perfmodel prices"))
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=_environment(tmp_path),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("---")
    assert "# rate_per_s = 0.0" in before
    assert "H100-SXM5-80GB" in before
    assert "put aside" in after
    assert "No prices were set" in after


def test_a_postgresql_is_rolled_back_and_can_be_upgraded_again(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    (dump,) = re.findall("`(pg_dump .* perfmodel)`", PAGE)
    rename, restore = re.findall("^    ((?:psql|pg_restore) .*)$", PAGE, re.MULTILINE)
    url = postgresql.new_database("perfmodel")

    def run(*commands: str) -> None:
        shell = ["sh", "-c", "\n".join(("set -e", *commands))]
        subprocess.run(shell, cwd=tmp_path, env=postgresql.environment(), check=True, timeout=300)

    def migrated(revision: str) -> None:
        connections = Connections(url)
        with connections.writing(limit_s=300) as connection:
            upgrade(connection, revision)
        connections.close()

    migrated("0010")
    run(dump)
    # Adds tables.
    migrated("head")
    run(rename, restore)
    migrated("head")


def test_its_files_can_be_read(tmp_path: Path) -> None:
    settings, prices = _blocks("toml")
    (tmp_path / "url").write_text("postgresql://host/db")
    file = tmp_path / "file.toml"
    file.write_text(settings.replace("/run/secrets/database-url", str(tmp_path / "url")))
    environment: dict[str, str] = {}
    read_settings_into(environment, file)
    assert environment["PERFMODEL_DATABASE"] == "postgresql://host/db"
    file.write_text(prices)
    per_hour = read_price_list(file, None, Catalog.default()).per_hour
    assert per_hour == {"H100-SXM5-80GB": 4.0, "A100-SXM4-40GB": 2.0}
    assert tomllib.loads(prices).keys() == {"north-cloud"}


def test_what_it_names_is_there() -> None:
    for path in set(re.findall(r"\bdeploy/[\w./-]*\w", PAGE)) - {"deploy/compose/secrets"}:
        if not path.startswith("deploy/compose/secrets/"):
            assert (ROOT / path).exists(), path
    services = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())["services"]
    for service in re.findall(r"compose\.yaml exec (\S+)", PAGE):
        assert service in services
    for target in re.findall(r"--target (\S+)", PAGE):
        assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()
