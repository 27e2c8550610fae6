"""README.md shows what really happens."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

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
