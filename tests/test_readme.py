"""README.md shows what really happens."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from service_process import service_process

from perfmodel.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    *(path for part in ("examples", "benchmarks") for path in sorted((ROOT / part).rglob("*.md"))),
]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("answer", ROOT / "docs" / "readme_answer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shown_answer_is_what_the_shipped_models_answer() -> None:
    """``make docs`` writes it again after training."""
    script = _script()
    shown, real = script.shown_answer(), script.answer()
    assert shown.keys() == real.keys()
    for part in ("basis", "model_version", "unpriced_operators", "warnings"):
        assert shown[part] == real[part]
    assert shown["step_time_s"] == pytest.approx(real["step_time_s"], rel=1e-3)
    for part in ("samples_per_second", "low", "high"):
        assert shown["throughput"][part] == pytest.approx(real["throughput"][part], rel=1e-3)


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        target, _, heading = link.partition("#")
        found = page.parent / target if target else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not heading or heading in _headings(found), f"{page.name} links to {link}"


def _headings(page: Path) -> set[str]:
    """Return the names that headings are linked by: lower case, dashes between the words."""
    written = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in written}


def test_every_word_of_the_makefile_is_listed_by_make() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for word in phony.group(1).split():
        assert re.search(rf"^{word}:.*## \S", makefile, re.MULTILINE), f"{word} has no help"


_BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
COMMANDS = [
    line
    for kind, block in _BLOCKS
    for line in block.splitlines()
    if not kind and line.startswith("perfmodel ")
]


@pytest.fixture(scope="module")
def fresh_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the commands name, and without trained models."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "examples").symlink_to(ROOT / "examples")
    bert = {"model_type": "bert", "num_hidden_layers": 2}
    (folder / "bert.json").write_text(json.dumps(bert))
    (folder / "models").mkdir()
    return folder


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_works(line: str, fresh_clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fresh_clone)
    shown = CliRunner().invoke(cli, shlex.split(line)[1:])
    assert shown.exit_code == 0, (shown.stdout, shown.stderr, shown.exception)
    assert shown.stdout.strip()


def test_every_program_works(fresh_clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fresh_clone)
    names: dict[str, Any] = {}
    database = f"sqlite:///{fresh_clone}/perfmodel.db"
    with service_process(database, fresh_clone, models="models") as (_, service):
        # The first time a model is captured, for which a busy machine may take long.
        job = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
        service.ask("/v1/jobs", {"job": job})
        for block in (block for kind, block in _BLOCKS if kind == "python"):
            exec(block.replace("http://127.0.0.1:8000", service.url), names)
    assert names["found"].throughput.samples_per_second > 0


def test_all_blocks_are_looked_at() -> None:
    kinds = [kind for kind, _ in _BLOCKS]
    assert len(COMMANDS) >= 9 and kinds.count("python") == 3 and kinds.count("json") == 1
