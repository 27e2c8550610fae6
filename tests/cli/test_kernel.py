"""``perfmodel kernel`` prints what ``POST /v1/kernels`` answers."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from perfmodel.cli import cli

#: No trained model: the analytical one answers, whatever this checkout ships.
MODELS = ["--models", "no-such-folder"]


def _run(*args: str, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, ["kernel", *args, *MODELS])
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def test_people_see_a_row_for_each_accelerator() -> None:
    on = ("--on", "T4", "--on", "H100")
    shown = _run("gemm", "m=512", "n=512", "k=512", "--precision", "fp16", *on).stdout
    for words in ("T4", "H100-SXM5-80GB", "roofline", "FLOP/s", "analytical"):
        assert words in shown


def test_json_is_that_of_the_route() -> None:
    shown = _run("all_reduce", "size_bytes=1e9", "ranks=8", "--on", "H100", "--json").stdout
    found = json.loads(shown)
    assert found["answers"][0]["bound"] == "link"
    assert found["answers"][0]["bytes"] == 2 * 1e9 * 7 / 8
    assert found["errors"] == []


def test_what_is_wrong_is_said_and_told_by_the_exit_code() -> None:
    shown = _run("gemm", "m=8", "n=8", "--precision", "fp16", "--on", "T4", code=2)
    assert "'k'" in shown.stderr
    shown = _run("gemm", "m=8", "n=8", "k=8", "--on", "T4", code=2)
    assert "Error: Say the precision of gemm" in shown.stderr
    gemm = ("gemm", "m=8", "n=8", "k=8", "--precision", "fp16")
    assert "nonsense" in _run(*gemm, "--on", "T4", "--on", "nonsense", code=1).stderr
