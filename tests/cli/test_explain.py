"""``perfmodel explain`` prints what the service answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perfmodel.cli import cli

#: No trained model: the analytical one answers, whatever this checkout ships.
MODELS = ["--models", "no-such-folder"]


def _run(*args: str, stdin: str | None = None, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, list(args), input=stdin)
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a captured pass of a small BERT."""
    folder = tmp_path_factory.mktemp("explain")
    config = folder / "bert.json"
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config.write_text(json.dumps({"model_type": "bert", **size, "intermediate_size": 128}))
    captured = folder / "graph.json"
    _run("capture", str(config), "--sequence-length", "32", "--output", str(captured))
    return str(captured)


def _json(*args: str, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(*args, "--json", *MODELS, **how).stdout)
    return found


def test_it_explains_what_predict_answers(graph: str) -> None:
    on = ["--on", "2xA100-SXM4-80GB"]
    found = _json("explain", graph, *on, "--most", "1000")
    assert found["estimate"] == _json("predict", graph, *on)
    assert sum(one["time_s"] for one in found["operators"]) == pytest.approx(
        found["compute_time_s"]
    )
    product = math.prod(one["factor"] for one in found["contributions"])
    first_s = found["contributions"][0]["step_time_s"]
    assert first_s * product == pytest.approx(found["estimate"]["step_time_s"])


def test_people_see_factors_classes_and_operators(graph: str) -> None:
    shown = _run("explain", graph, "--on", "A100-SXM4-80GB", "--most", "3", *MODELS).stdout
    for words in ("samples/s", "roofline", "typical efficiency", "matmul", "FLOP/B", "launch"):
        assert words in shown


def test_most_bounds_the_operators(graph: str) -> None:
    found = _json("explain", graph, "--on", "A100-SXM4-80GB", "--most", "3")
    assert len(found["operators"]) == 3


def test_a_request_from_standard_input_brings_its_observations(tmp_path: Path) -> None:
    job = {
        "hf_config": {
            "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 128,
        },
        "mode": "inference", "batch_size": 2, "sequence_length": 32,
    }  # fmt: skip
    seen = {"placement": "T4", "batch_size": 2, "step_time_s": 0.01}
    request = {"job": job, "placement": "A100-SXM4-80GB", "observations": [seen]}
    found = _json("explain", "-", stdin=json.dumps(request))
    assert found["contributions"][-1]["name"] == "observations of this job"
    assert found["nearest"][0]["measured_s"] == 0.01


def test_a_placement_is_needed_and_named_once(graph: str) -> None:
    assert "--on" in _run("explain", graph, *MODELS, code=2).stderr
    request = json.dumps({"job": {}, "placement": "T4"})
    _run("explain", "-", "--on", "T4", *MODELS, stdin=request, code=2)
