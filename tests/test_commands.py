"""The commands that pages show are understood, and those that ask are answered, here and there."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper
from onnx_files import onnx_file, tensor_info, weight
from service_process import service_process
from small_pages import fenced_and_indented

from perfmodel.cli import cli
from perfmodel.graph.canonical import from_json
from perfmodel.store.state.database import Database

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
#: What ends a command in a shell.
_ENDS = frozenset({"|", ">", "<", "&", ">>", "||", "&&", ";"})
#: Commands that answer at once from what comes with the package, or with a file.
_ASKING = frozenset(
    {"predict", "explain", "compare", "curve", "plans", "capture", "devices", "models", "keys",
     "backup", "restore", "graphs"}
)  # fmt: skip
#: What names something that only its reader has.
_OF_THE_READER = re.compile(
    r"[0-9a-f]{16}|20\d{6}T|pmk_|postgresql|\bCAMPAIGN\b|\bCOMMAND\b|revoke|rollback|collect|resnt50|"
    r"graphs (build|check)"
)


def _commands() -> list[tuple[str, ...]]:
    found: dict[tuple[str, ...], None] = {}
    for page in PAGES:
        for block in fenced_and_indented(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith(("perfmodel ", "$ perfmodel ")):
                    found.setdefault(_words(line.removeprefix("$ ")))
    return list(found)


def _words(line: str) -> tuple[str, ...]:
    words = shlex.split(line, comments=True)[1:]
    end = next((place for place, word in enumerate(words) if word in _ENDS), len(words))
    # There is no folder at the root of the machine that could be made.
    return tuple(word.replace("/data", "data") if word == "/data" else word for word in words[:end])


COMMANDS = [words for words in _commands() if words[:1] != ("COMMAND",)]
ASKED = [
    words
    for words in COMMANDS
    if words[0] in _ASKING and not _OF_THE_READER.search(" ".join(words)) and words[-1] != "-"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the pages speak of, and without trained models."""
    found = tmp_path_factory.mktemp("typed")
    train = (ROOT / "examples" / "train.py").read_text()
    (found / "examples").symlink_to(ROOT / "examples")
    (found / "diffusion.py").write_text((ROOT / "examples" / "diffusion.py").read_text())
    (found / "train.py").write_text(
        train
        + textwrap.dedent("""

        def step():
            import torch

            return torch.nn.Linear(4, 2), (torch.empty(8, 4),)
        """)
    )
    bert = json.dumps({"model_type": "bert", "num_hidden_layers": 2})
    job = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
    request = json.dumps({"job": job, "placement": "8xA100-SXM4-80GB"})
    texts = {
        "bert.json": bert,
        "my_config.json": bert,
        "request.json": request,
        "requests.jsonl": f"{request}\n{request}\n",
        "jobs.json": json.dumps([job]),
    }
    for name, text in texts.items():
        (found / name).write_text(text)
    for name in (
        "models",
        "profiles",
        "my-profiles",
        "tables",
        "results",
        "records",
        "data",
        "path/to/tables",
        "path/to/pytorch-image-models/results",
        "elsewhere",
        "FOLDER",
    ):
        (found / name).mkdir(parents=True)
    for name in (
        "jobs.toml",
        "jobs.jsonl",
        "asked.jsonl",
        "trace.json.gz",
        "rank0.json.gz",
        "run.tar.gz",
        "run.zip",
        "lambda_training.parquet",
    ):
        (found / name).touch()
    (found / "model.onnx").write_bytes(_onnx_model())
    database = f"sqlite:///{found / 'perfmodel.db'}"
    Database(database)
    for name in ("state.tar", "before.tar"):
        saved = CliRunner().invoke(cli, ["backup", str(found / name), "--database", database])
        assert saved.exit_code == 0, saved.stderr
    return found


def _onnx_model() -> bytes:
    """Return an ONNX file with the dimensions that the pages bind."""
    look_up = helper.make_node("Gather", ["table", "ids"], ["y"])
    ids = tensor_info("ids", ["batch", "seq"], TensorProto.INT64)
    model = onnx_file([look_up], [ids], [tensor_info("y", None)], [weight("table", 100, 64)])
    return bytes(model.SerializeToString())


@pytest.fixture
def needed(words: tuple[str, ...]) -> None:
    """Skip a command about a library that is not installed."""
    if words[1:] and words[1].startswith("diffusion.py"):
        pytest.importorskip("diffusers")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_is_understood(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    context = cli.make_context("perfmodel", list(words))
    command: click.Command = cli
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


@pytest.mark.usefixtures("needed")
@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_what_asks_is_answered(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PERFMODEL_CACHE", str(folder / "cache"))
    if words[0] == "backup":
        Path(words[1]).unlink()
    shown = CliRunner().invoke(cli, list(words))
    assert shown.exit_code == 0, (shown.stdout, shown.stderr, shown.exception)
    if "--output" in words:
        written = Path(words[words.index("--output") + 1])
        assert from_json(written.read_bytes()).nodes
    assert shown.stdout.strip() or shown.stderr.strip()


#: Commands that a running service answers, and what each answer has.
_OF_A_SERVICE = {
    "predict": {"throughput", "step_time_s", "memory", "basis", "warnings"},
    "compare": {"placement", "throughput", "basis"},
    "curve": {"counts", "samples_per_second", "efficiency"},
    "kernel": {"answers"},
}
THERE = [
    words
    for words in ASKED
    if words[0] in _OF_A_SERVICE and not {"local", "--models", "-"} & set(words)
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a service without trained models as its operators do, and give its URL."""
    place = tmp_path_factory.mktemp("service")
    with service_process(f"sqlite:///{place / 'perfmodel.db'}", place) as (_, found):
        yield found.url


@pytest.mark.usefixtures("needed")
@pytest.mark.parametrize("words", THERE, ids=" ".join)
def test_what_asks_is_answered_by_a_service(
    words: tuple[str, ...], service: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PERFMODEL_URL", service)
    shown = CliRunner().invoke(cli, [*words, *(["--json"] if "--json" not in words else [])])
    assert shown.exit_code == 0, (shown.stdout, shown.stderr, shown.exception)
    [answer, *_] = map(
        json.loads, shown.stdout.splitlines() if "--jsonl" in words else [shown.stdout]
    )
    first = answer[0] if isinstance(answer, list) else answer
    assert _OF_A_SERVICE[words[0]] <= first.keys()


def test_enough_is_looked_at() -> None:
    assert len(COMMANDS) > 90 and len(ASKED) > 20 and len(THERE) > 10
