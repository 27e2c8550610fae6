"""What the pages of adapters tell readers to run works.

Each program and command of a page runs in order, in one folder and one namespace, as a reader would
do it. Curls are run by ``tests/test_docs.py``; what needs a scheduler has a test with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from guarded_service import make_app
from made_up_products import large_product
from running import running

from perfmodel.adapters.ask import Service
from service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "adapters").glob("*.md"))
_LOCAL = "http://127.0.0.1:8000"
#: A fenced block, indented or not, or indented lines after an empty one.
_BLOCK = re.compile(
    r"^(?P<by> *)```(?P<language>\w*)\n(?P<code>(?:.*\n)*?)(?P=by)```$"
    r"|(?<=\n\n)(?P<command>(?:    .*\n)+)",
    re.MULTILINE,
)
#: Commands that need a scheduler, and the test that runs them with it.
WITH_SCHEDULERS = {"dstack server": "test_dstack.py", "sbatch": "test_slurm.py"}
#: Answers.
SHOWN = ("partition=a100\ntime_limit_min=95\n",)
#: What a cluster would do.
_SHELL = "set -e -o pipefail\nkubectl() { :; }\n"


@dataclass(frozen=True)
class Step:
    """One block of a page."""

    page: str
    language: str
    code: str

    @property
    def is_curl(self) -> bool:
        return bool(re.search(r"^\s*curl |\| *curl", self.code, re.MULTILINE))

    @property
    def needs_scheduler(self) -> str | None:
        return next((test for word, test in WITH_SCHEDULERS.items() if word in self.code), None)

    @property
    def settings(self) -> dict[str, str]:
        """What is set in the environment of the service."""
        found = re.fullmatch(r"(PERFMODEL_\w+)='(.*)'\s*", self.code)
        return {found[1]: found[2]} if found else {}


def steps_of(page: Path) -> list[Step]:
    return [
        Step(
            page=page.stem,
            language=block["language"] or "",
            code=textwrap.dedent(block["code"] or block["command"]),
        )
        for block in _BLOCK.finditer(page.read_text())
    ]


STEPS = [step for page in PAGES for step in steps_of(page)]
RUN = [
    step
    for step in STEPS
    if not (step.is_curl or step.needs_scheduler or step.settings) and step.code not in SHOWN
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("recipes")
    app = make_app(folder, capture=large_product, models=folder / "models")
    with running(app) as found:
        yield found


def namespace(url: str) -> dict[str, Any]:
    """Return the names that pages take for given: the scheduler's, and the service."""
    return {
        "url": url,
        "Service": Service,
        "scheduler": SimpleNamespace(),
        "task": SimpleNamespace(set_time_estimator=lambda estimate: estimate),
        "JobInfo": lambda *given: given,
        "resources": {"GPU": 1}, "created": 0.0, "min_replicas": 1, "max_replicas": 64,
        "job": _Job({"model": "timm/resnet50", "mode": "training", "batch_size": 64}),
    }  # fmt: skip


class _Job(dict[str, Any]):
    """A job as JSON, with what Sia's simulator keeps of it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.profiles: dict[str, dict[Any, Any]] = defaultdict(dict)


@pytest.mark.parametrize("page", sorted({step.page for step in RUN}))
def test_what_a_page_says_works(page: str, url: str, tmp_path: Path) -> None:
    named = namespace(url)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for step in RUN:
        if step.page != page:
            continue
        if step.language == "python":
            program = step.code.replace(_LOCAL, url)
            exec(compile(program, f"docs/adapters/{page}.md", "exec"), named)
        else:
            run(step.code, url, tmp_path)


def run(command: str, url: str, folder: Path) -> None:
    """Run a command as a reader does, with this interpreter, and nowhere but here."""
    script = re.sub(r"http://(?!127)[\w.-]+:\d+", "http://127.0.0.1:9", command)
    script = re.sub(r"^python ", f"{sys.executable} ", script, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", _SHELL + script.replace(_LOCAL, url)],
        capture_output=True, text=True, cwd=folder, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for made in re.findall(r"> (\S+)$|-out (\S+)|jobs\.json (\S+)", command, re.MULTILINE):
        file = folder / next(filter(None, made))
        assert file.stat().st_size > 0, f"{file.name} is empty: {command}"


@pytest.mark.parametrize("step", [step for step in STEPS if step.settings], ids=lambda s: s.page)
def test_what_is_set_is_read(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in step.settings.items():
        plain = Settings().model_dump()
        monkeypatch.setenv(name, value)
        assert Settings().model_dump() != plain


def test_every_block_is_run_somewhere() -> None:
    here = Path(__file__).parent
    for step in STEPS:
        if test := step.needs_scheduler:
            assert (here / test).exists()
    # Blocks that none of the patterns finds would be run by nobody.
    for page in PAGES:
        text = page.read_text()
        fences = len(re.findall(r"^ *```", text, re.MULTILINE))
        found = [block for block in _BLOCK.finditer(text) if block["code"] is not None]
        assert fences == 2 * len(found), page.name
        for line in re.findall(
            r"^    (?:python|perfmodel|pip|PERFMODEL_\w+=).*$", text, re.MULTILINE
        ):
            assert any(line.strip() in step.code for step in steps_of(page)), line
