"""README.md shows what really happens."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_word_of_the_makefile_is_listed_by_make() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for word in phony.group(1).split():
        assert re.search(rf"^{word}:.*## \S", makefile, re.MULTILINE), f"{word} has no help"
