"""Models of one's own: Python files, configs under any name, and ``python -m perfmodel``."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from perfmodel import Estimator
from perfmodel.cli import cli
from perfmodel.errors import CaptureError, InvalidInputError
from perfmodel.estimator.jobs.capture import prepare_module
from perfmodel.graph.in_precision import own_precision
from perfmodel.types import Phase, Precision

MODELS = ["--models", "no-such-folder"]

_TRAIN = """
import sys

import torch
from torch import nn
from blocks import Block

def model():
    return nn.Sequential(nn.Conv2d(3, 8, 3), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def with_inputs():
    return nn.Embedding(1000, 64), (torch.zeros(4, 16, dtype=torch.long),)

def narrow(width):
    return nn.Linear(width, 2)

net = nn.Linear(8, 2)
half = nn.Linear(8, 2).half()
compiled = torch.compile(nn.Linear(8, 2))
print("said by the file", sys.argv[1:])

def leaving():
    sys.exit("no weights")

def on_cuda():
    return nn.Linear(8, 2).to("cuda")
number = 3
if __name__ == "__main__":
    raise SystemExit("must not run")
"""
_BLOCKS = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
    def forward(self, x):
        return x + self.conv(x).relu()
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """Return a Python file with models, which imports its neighbour."""
    (tmp_path / "blocks.py").write_text(_BLOCKS)
    path = tmp_path / "train.py"
    path.write_text(_TRAIN)
    return path


def _run(*args: str, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, list(args))
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def _predicted(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run("predict", *args, "--json", *MODELS).stdout)
    return found


def test_what_a_python_file_makes_is_captured_with_the_shapes_that_are_given(train: Path) -> None:
    shapes = ["--inputs", "2x3x32x32", "--batch-size", "16", "--mode", "training"]
    totals = json.loads(_run("capture", f"{train}:model", *shapes, "--json").stdout)
    # Two convolutions with biases: 3 * 8 * 9 + 8 and 8 * 8 * 9 + 8.
    assert totals["parameters"] == 3 * 8 * 9 + 8 + 8 * 8 * 9 + 8
    assert totals["source"]["batch_size"] == "16"
    forward = totals["phases"]["forward"]["flops"]
    # Both convolutions put out 30 x 30 of each of 16 images.
    assert forward == pytest.approx(2 * 16 * 30 * 30 * 8 * 9 * (3 + 8), rel=0.02)
    found = _predicted(f"{train}:model", *shapes, "--on", "T4")
    assert found["throughput"]["samples_per_second"] * found["step_time_s"] == pytest.approx(16)


def test_what_a_file_prints_is_no_part_of_the_answer(train: Path) -> None:
    shown = _run("predict", f"{train}:net", "--inputs", "4x8", "--on", "T4", "--json", *MODELS)
    assert json.loads(shown.stdout)["step_time_s"] > 0
    assert "said by the file []" in shown.stderr


@pytest.mark.parametrize("command", ["predict", "explain", "compare"])
def test_people_read_which_file_was_asked_about(command: str, train: Path) -> None:
    named = f"{train}:net"
    shown = _run(command, named, "--inputs", "4x8", "--on", "T4", *MODELS).stdout
    # Long names are broken where a line ends.
    assert f"{named}," in shown.replace("\n", "")


def test_what_is_compiled_runs_in_its_compiler(train: Path) -> None:
    shapes = ["--inputs", "64x8", "--on", "T4"]
    stated = _predicted(f"{train}:net", "--compiler", "inductor", *shapes)
    assert _predicted(f"{train}:compiled", *shapes) == stated
    estimator, inputs = Estimator.from_folder("no-such-folder"), torch.ones(64, 8)
    plain = estimator.estimate_module(nn.Linear(8, 2), inputs, "T4", compiler="inductor")
    assert estimator.estimate_module(torch.compile(nn.Linear(8, 2)), inputs, "T4") == plain


@pytest.mark.skipif(torch.cuda.is_available(), reason="has the device")
def test_a_device_that_is_not_here_is_told_with_the_cure(train: Path) -> None:
    run = ["predict", f"{train}:on_cuda", "--inputs", "4x8", "--on", "T4"]
    assert "torch.cuda.is_available() first" in CliRunner().invoke(cli, run).stderr


class _Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 8, sparse=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x)


class _Chooses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


@pytest.mark.parametrize(
    ("module", "mode", "says"),
    [
        (_Sparse(), "training", "sparse=False"),
        (_Chooses(), "inference", "as topk does"),
        (nn.Module(), "inference", 'missing the required "forward"'),
    ],
)
def test_common_failures_name_the_cure(module: nn.Module, mode: str, says: str) -> None:
    with pytest.raises(CaptureError, match=says) as caught:
        prepare_module(module, torch.ones(4, 8, dtype=torch.long), None, {"mode": mode})
    assert ("needs the values" in caught.value.message) is isinstance(module, _Chooses)


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "bf16"},
        {"precision": "fp16", "mode": "training"},
        {"memory_format": "channels_last"},
        {"mode": "training", "activation_checkpointing": "full"},
    ],
)
def test_a_module_stays_as_it_was(settings: dict[str, Any]) -> None:
    blocks = [nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)) for _ in range(4)]
    module = nn.Sequential(*blocks).train()
    blocks[1][1].eval()
    module[0][0].weight.grad = torch.ones(4, 4, 1, 1)
    x = torch.rand(2, 4, 8, 8)
    plain = {"mode": "training"}
    first = prepare_module(module, x, None, plain)
    modes = [one.training for one in module.modules()]
    prepare_module(module, x, None, settings)
    assert [one.training for one in module.modules()] == modes
    assert {one.dtype for one in module.parameters()} == {torch.float32}
    assert module[0][0].weight.is_contiguous() and module[0][0].weight.grad is not None
    assert module(x).dtype is torch.float32
    again = prepare_module(module, x, None, plain)
    assert again.job.graph == first.job.graph


@dataclass
class _Scores:
    """What a module may put out."""

    words: list[str]
    scores: torch.Tensor


class _Scoring(nn.Linear):
    def forward(self, x: torch.Tensor) -> _Scores:  # type: ignore[override]
        return _Scores(["a"], super().forward(x))


def test_a_dataclass_is_trained_on_as_a_mapping_is() -> None:
    found = prepare_module(_Scoring(8, 2), torch.ones(4, 8), None, {"mode": "training"})
    assert any(node.phase is Phase.BACKWARD for node in found.step.graph.nodes)


class _Locked(nn.Linear):
    """Holds what cannot be copied."""

    def __init__(self) -> None:
        super().__init__(8, 2)
        self.lock = threading.Lock()


def test_a_module_that_cannot_be_copied_keeps_its_gradients() -> None:
    module = _Locked()
    module.weight.grad = torch.ones(2, 8)
    with pytest.raises(CaptureError, match="could not be copied"):
        prepare_module(module, torch.ones(4, 8), None, {"mode": "training"})
    assert module.weight.grad is not None


class _Classifier(nn.Module):
    """Takes a batch as data loaders give it, and puts out its loss by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        scores = self.layer(batch["x"])
        return {"loss": nn.functional.cross_entropy(scores, batch["y"]), "scores": scores}


def test_inputs_and_the_loss_may_lie_in_mappings() -> None:
    batch = {"x": torch.ones(16, 8), "y": torch.zeros(16, dtype=torch.long)}
    prepared = prepare_module(_Classifier(), (batch,), None, {"mode": "training"})
    assert prepared.job.batch_size == 16
    used = [node.op for node in prepared.step.graph.nodes]
    assert "nll_loss_forward" in used
    assert "square" not in used and "pow" not in used


def test_functions_that_are_compiled_are_captured_as_they_are_written() -> None:
    class Decorated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 2)

        @torch.compile
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).relu()

    class Plain(Decorated):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).relu()

    torch._dynamo.reset()
    counted = torch._dynamo.utils.counters
    counted.clear()
    answers = [prepare_module(m, torch.ones(4, 8), None, {}) for m in (Decorated(), Plain())]
    assert answers[0].job.graph == answers[1].job.graph
    assert not counted["frames"]


def test_a_file_is_answered_in_the_precision_that_it_computes_in(train: Path) -> None:
    shapes = ["--inputs", "64x8:float16", "--on", "T4"]
    stated = _predicted(f"{train}:net", "--inputs", "64x8", "--precision", "fp16", "--on", "T4")
    assert _predicted(f"{train}:half", *shapes) == stated


def test_a_function_may_return_its_inputs(train: Path) -> None:
    rate = _predicted(f"{train}:with_inputs", "--on", "T4")["throughput"]
    assert rate["tokens_per_second"] == pytest.approx(16 * rate["samples_per_second"])
    shown = _run("predict", f"{train}:with_inputs", "--batch-size", "8", "--on", "T4", code=2)
    assert "hold 4 samples" in shown.stderr


@pytest.mark.parametrize(
    ("subject", "options", "says"),
    [
        (":net", [], "needs inputs"),
        (":number", ["--inputs", "1x2"], "makes none"),
        (":narrow", ["--inputs", "1x2"], "needs width"),
        (":absent", [], "has no 'absent'. It has: model, with_inputs, narrow, net, half, compiled"),
        (":net", ["--inputs", "1y2"], "An input is a shape"),
        (":net", ["--inputs", "4x9"], "captured by shape"),
        (":net", ["--inputs", "0x8"], "An input is a shape"),
        (":net", ["--inputs", "4x8", "--sequence-length", "9"], "--sequence-length does not apply"),
        (":leaving", ["--inputs", "4x8"], "leaving failed: SystemExit: no weights"),
        ("", [], "train.py:NAME"),
    ],
)
def test_what_cannot_be_captured_says_why(
    train: Path, subject: str, options: list[str], says: str
) -> None:
    shown = CliRunner().invoke(cli, ["predict", f"{train}{subject}", *options, "--on", "T4"])
    assert shown.exit_code in (2, 4)
    assert says in shown.stderr


def test_a_config_goes_by_any_name(tmp_path: Path) -> None:
    path = tmp_path / "downloaded"
    path.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 48}))
    named = _predicted("--config", str(path), "--sequence-length", "16", "--on", "T4")
    path.rename(tmp_path / "bert.json")
    path = tmp_path / "bert.json"
    assert _predicted(str(path), "--sequence-length", "16", "--on", "T4") == named
    assert "--config" in _run("predict", "--on", "T4", code=2).stderr
    assert "Name a model" in _run("predict", "gpt2", "--config", str(path), code=2).stderr


def test_a_module_is_asked_about_in_one_call() -> None:
    estimator = Estimator.from_folder("no-such-folder")
    module, images = nn.Linear(64, 8), torch.ones(32, 64)
    before = module.weight.detach().clone()
    found = estimator.estimate_module(module, (images,), "2xT4", mode="training", optimizer="adam")
    assert found.throughput.samples_per_second * found.step_time_s == pytest.approx(2 * 32)
    assert torch.equal(module.weight, before) and module.weight.grad is None
    with pytest.raises(InvalidInputError, match="hold 32 samples"):
        estimator.estimate_module(module, (images,), "T4", batch_size=8)
    with pytest.raises(InvalidInputError, match="optimiser"):
        estimator.estimate_module(module, (images,), "T4", optimiser="adam")
    # A tensor alone is not a batch of arguments.
    alone = estimator.estimate_module(module, images, "T4")
    assert alone == estimator.estimate_module(module, (images,), "T4")
    with pytest.raises(InvalidInputError, match="Give a torch.nn.Module; got str"):
        estimator.estimate_module("timm/resnet50", images, "T4")  # type: ignore[arg-type]


def _answered(module: nn.Module, dtype: torch.dtype, **stated: Any) -> Any:
    inputs = torch.empty(8192, 8192, dtype=dtype, device="meta")
    estimator = Estimator.from_folder("no-such-folder")
    return estimator.estimate_module(module, inputs, "A100-SXM4-80GB", **stated)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_module_is_answered_in_its_own_precision(dtype: torch.dtype) -> None:
    with torch.device("meta"):
        narrow, wide = nn.Linear(8192, 8192, dtype=dtype), nn.Linear(8192, 8192)
    own = _answered(narrow, dtype)
    word = "fp16" if dtype is torch.float16 else "bf16"
    assert own.step_time_s == _answered(wide, torch.float32, precision=word).step_time_s
    # 2 * 8192^3 operations: 3.5 ms at 312 TFLOP/s of 16 bits, 56 ms at 19.5 TFLOP/s of fp32.
    assert 2 * 8192**3 / 312e12 < own.step_time_s < 2 * 8192**3 / 19.5e12 / 4


class _Autocasting(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16):
            return self.layer(x)


@pytest.mark.parametrize("device", ["cuda", "cpu", "meta"])
@pytest.mark.parametrize("mode", ["training", "inference"])
def test_autocast_inside_of_a_module_is_that_of_its_precision(device: str, mode: str) -> None:
    own = prepare_module(_Autocasting(device), torch.ones(8, 64), None, {"mode": mode})
    settings = {"mode": mode, "precision": "amp_bf16"}
    stated = prepare_module(nn.Sequential(nn.Linear(64, 64)), torch.ones(8, 64), None, settings)
    assert own.job.precision is Precision.AMP_BF16
    products = [[n.op for n in one.step.graph.nodes if "mm" in n.op] for one in (own, stated)]
    assert products[0] == products[1]
    for graph in (own.step.graph, stated.step.graph):
        assert own_precision(graph) is Precision.AMP_BF16
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nn.Linear(4, 4)(torch.ones(2, 4)).dtype is torch.bfloat16


def test_fsdp_mixed_precision_computes_in_its_type() -> None:
    mixed = {"mode": "training", "mixed_precision": {"parameter": "bf16"}}
    prepared = prepare_module(nn.Linear(64, 64), torch.ones(8, 64), None, mixed)
    assert own_precision(prepared.step.graph) is Precision.BF16
    assert not prepared.step.warnings


class _Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(16, 16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x)


def test_a_stated_autocast_is_captured_once() -> None:
    settings = {"mode": "training", "precision": "amp_fp16"}
    prepared = prepare_module(_Bilinear(), torch.ones(8, 16), None, settings)
    assert not prepared.step.warnings  # autocast leaves this product as it is


def test_products_in_types_that_nothing_is_known_of_are_told() -> None:
    with torch.device("meta"):
        module = nn.Linear(8192, 8192, dtype=torch.float64)
    (said,) = [w for w in _answered(module, torch.float64).warnings if "float64" in w]
    assert "as if they were fp32" in said


def test_the_module_runs_as_a_command() -> None:
    run = [sys.executable, "-m", "perfmodel", "--version"]
    shown = subprocess.run(run, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("perfmodel, version ")
