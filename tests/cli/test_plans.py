"""``perfmodel plans``: each plan comes with the options with which to ask about it."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner

from perfmodel.cli import cli

#: No trained model: the analytical one answers, whatever this checkout ships.
GPT = [
    "zoo/megatron-gpt", "--model-kwarg", "num_layers=4", "--mode", "training", "--precision",
    "amp_bf16", "--optimizer", "adam", "--models", "no-such-folder",
]  # fmt: skip


def _run(*args: str) -> str:
    shown = CliRunner().invoke(cli, list(args))
    assert shown.exit_code == 0, (shown.stdout, shown.stderr, shown.exception)
    return shown.stdout


def _facts(name: str, text: str) -> list[str]:
    return re.findall(rf"^{name} +(.*)$", text, re.M)


def test_predict_answers_about_a_plan_by_its_options_what_the_search_said() -> None:
    hardware = "2x(4xA100-SXM4-80GB)@4xib-200g"
    found = _run("plans", *GPT, "--on", hardware, "--global-batch", "32", "--most", "3")
    options, times = _facts("options", found), _facts("step time", found)
    assert len(options) == len(times) == 3
    for stated, time in zip(options, times, strict=True):
        asked = _run("predict", *GPT, *shlex.split(stated))
        (answered,) = _facts("step time", asked)
        number, unit = answered.split(":")[0].split()
        assert [float(number), unit] == [pytest.approx(float(time.split()[0]), rel=0.02), "ms"]
    assert found == found.rstrip() + "\n"


def test_a_step_has_a_sample_at_least() -> None:
    refused = CliRunner().invoke(cli, ["plans", *GPT, "--on", "2xT4", "--global-batch", "0"])
    assert refused.exit_code == 2 and "0 is not in the range" in refused.stderr
