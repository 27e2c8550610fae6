"""The examples and tables of docs/placements.md hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.core.resolved_placement import resolve_placement
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.topology.links import LINKS, check_link_name
from perfmodel.placement.topology.networks import NETWORKS
from perfmodel.placement.topology.parse import format_placement, parse_placement

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "placements.md").read_text(encoding="utf-8")


def _section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


EXAMPLES = re.findall(r"^\| `([^`]+)` \|", _section("Short form").split("Blanks and case")[0], re.M)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_short_form_are_read_and_print_back(text: str) -> None:
    placement = parse_placement(text)
    assert format_placement(placement) == text
    resolve_placement(placement, Catalog.default())


def test_the_example_of_the_long_form_is_read() -> None:
    (written,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    placement = parse_placement(json.loads(written))
    assert format_placement(placement) == (
        "4x(8xH100-SXM5-80GB)@8xib-400g/2 tp=8 pp=2 zero=1 sp schedule=interleaved vp=2"
    )


def test_the_program_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(program, {})


def test_the_page_names_every_link_and_no_other() -> None:
    table = _section("Links inside a host").split("`nvlink`, `nvswitch`")[0]
    for name in re.findall(r"`([a-z0-9-]+)`", table):
        if name not in ("link", "-x8", "-x4"):
            check_link_name(name)
    families = {re.sub(r"\d.*|-v.*|link.*", "", name) for name in LINKS}
    assert all(family in table for family in families)


def test_the_page_names_every_network() -> None:
    section = _section("Networks between hosts")
    rows = dict(re.findall(r"^\| `([a-z]+)-…g`[^|]*\|([^|]*\|[^|]*)\|", section, re.M))
    told = {
        f"{fabric}-{rate}g"
        for fabric, rates in rows.items()
        for rate in re.findall(r"\b(\d+)\b", re.sub(r"\(\d+\)", "", rates))
    }
    assert told == set(NETWORKS)


@pytest.mark.parametrize("text", ["T4[nvlink]", "2x3xA100", "1+1+4xT4"])
def test_what_the_page_calls_nonsense_is_refused(text: str) -> None:
    assert f"`{text}`" in PAGE
    with pytest.raises(InvalidPlacementError):
        Fabric.of(parse_placement(text))
