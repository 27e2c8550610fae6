"""``perfmodel devices`` and ``perfmodel doctor``, over the shipped catalogue and this machine."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from perfmodel.cli import cli
from perfmodel.devices.catalog import Catalog


def _run(*args: str) -> str:
    shown = CliRunner().invoke(cli, list(args))
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout


def test_json_holds_the_whole_catalogue() -> None:
    listed = json.loads(_run("devices", "--json"))
    assert [device["name"] for device in listed] == list(Catalog.default().names())
    assert all(device["sources"] for device in listed)


def test_the_table_shows_units() -> None:
    shown = _run("devices", "A100-SXM4-80GB")
    # 312 TFLOP/s of bf16, 80 GiB and 400 W are on the data sheet.
    for words in ("312 TFLOP/s", "80 GiB", "400 W", "1 accelerators"):
        assert words in shown


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [(("--kind", "tpu"), "kind", "tpu"), (("--vendor", "amd"), "vendor", "AMD")],
)
def test_filters_keep_only_what_matches(args: tuple[str, ...], field: str, value: str) -> None:
    listed = json.loads(_run("devices", *args, "--json"))
    assert listed
    assert {device[field] for device in listed} == {value}


def test_words_match_aliases_and_architectures() -> None:
    names = {d["name"] for d in json.loads(_run("devices", "hopper", "sxm", "--json"))}
    assert "H100-SXM5-80GB" in names
    assert "A100-SXM4-80GB" not in names


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    shown = CliRunner().invoke(cli, ["devices", "H10"])
    assert shown.exit_code == 0  # part of H100
    shown = CliRunner().invoke(cli, ["devices", "A100-SXM4-80GBB"])
    assert shown.exit_code == 2
    assert "Did you mean 'A100-SXM4-80GB'" in shown.stderr


def test_sources_name_where_numbers_come_from() -> None:
    assert "sources" in _run("devices", "a100", "--sources")


def test_doctor_says_what_is_here_and_what_is_missing() -> None:
    shown = _run("doctor")
    assert "Can profile" in shown
    assert "PyTorch models on the CPU" in shown
    report = json.loads(_run("doctor", "--json"))
    assert report["cpu"]["core_count"] >= 1
    for extra in report["extras"]:
        assert bool(extra["missing"]) == (extra["install_command"] is not None)
