"""``perfmodel prices``: lists of providers, kept in a database or by a service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from guarded_service import make_app
from running import running

from perfmodel.cli.app import cli
from perfmodel.cli.running.prices import read_price_list
from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError, PerfModelError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "prices.toml"


def _run(*arguments: str) -> str:
    command = cli.get_command(None, "prices")  # type: ignore[arg-type]
    assert command is not None
    return CliRunner().invoke(command, arguments, catch_exceptions=False).output


def test_hosts_are_divided_among_their_accelerators() -> None:
    found = read_price_list(EXAMPLE, "rack-and-sons", Catalog.default())
    # 16 an hour for a host with 8.
    assert found.per_hour == {"L4": 0.6, "A100-SXM4-40GB": 2.0}
    assert found.currency == "USD"


def test_a_list_is_kept_in_a_database(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/perfmodel.db"
    _run("import", str(EXAMPLE), "--provider", "north-cloud", "--database", database)
    _run("import", str(EXAMPLE), "--provider", "rack-and-sons", "--database", database)
    kept = json.loads(_run("--database", database, "--json"))["prices"]
    assert {row["accelerator"]: (row["per_hour"], row["currency"]) for row in kept} == {
        "A100-SXM4-40GB": (2.0, "USD"),
        "A100-SXM4-80GB": (2.1, "EUR"),
        "H100-SXM5-80GB": (4.0, "EUR"),
        "L4": (0.6, "USD"),
        "T4": (0.35, "EUR"),
    }


def test_a_service_is_told(tmp_path: Path) -> None:
    with running(make_app(tmp_path, models=tmp_path / "models")) as url:
        _run("import", str(EXAMPLE), "--provider", "north-cloud", "--service", url)
        kept = json.loads(_run("--service", url, "--json"))["prices"]
    assert {row["accelerator"]: row["per_hour"] for row in kept} == {
        "A100-SXM4-80GB": 2.1, "H100-SXM5-80GB": 4.0, "T4": 0.35,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "provider", "said"),
    [
        ("[a]\n[b]", None, "--provider"),
        ("[a.accelerators]\nT4 = 1", "aa", "Did you mean 'a'"),
        ("[a.accelerators]\nT44 = 1", None, "Unknown accelerator"),
        ("[a.accelerators]\nT4 = 0", None, "above 0"),
        ("[a.accelerators]\nT4 = nan", None, "above 0"),
        ("[a.accelerators]\nT4 = true", None, "above 0"),
        ("[a]\ncurrency = 'Euro'\naccelerators.T4 = 1", None, "three letters"),
        ("[a]\nprices.T4 = 1", None, "Unknown field"),
        ("[a]", None, "names no price"),
        ("[a.accelerators]\nT4 = 1\n'Tesla T4' = 1", None, "both say"),
        ("[a.instances]\n'T4' = 1", None, "no instance type"),
        ("a = 1", None, "must be a table"),
        ("a", None, "is no TOML"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, text: str, provider: str | None, said: str
) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(PerfModelError, match=said):
        read_price_list(file, provider, Catalog.default())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_price_list(tmp_path / "none.toml", None, Catalog.default())
