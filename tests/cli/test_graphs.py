from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from perfmodel.cli import cli


def test_what_comes_with_the_package_is_listed() -> None:
    shown = CliRunner().invoke(cli, ["graphs", "--json"])
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert {"timm/resnet50", "bert-base-uncased", "gpt2"} <= set(found["models"])
    assert set(found["libraries"]) == {"timm", "torch", "transformers"}


def test_a_model_that_is_not_wanted_is_named() -> None:
    shown = CliRunner().invoke(cli, ["graphs", "check", "zoo/dlmr"])
    assert shown.exit_code == 2
    assert "zoo/dlmr" in shown.stderr
    assert "`perfmodel graphs` lists them" in shown.stderr


@pytest.mark.parametrize("sizes", ["a", "0", "7,", ""])
def test_batch_sizes_that_are_none_are_refused(sizes: str) -> None:
    shown = CliRunner().invoke(cli, ["graphs", "check", "gpt2", "--batch-sizes", sizes])
    assert shown.exit_code == 2
    assert f"got {sizes!r}" in shown.stderr
