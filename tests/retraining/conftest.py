from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from migrated import migrated_sqlite
from retraining_world import FEW, RetrainingWorld, write_profiles


@pytest.fixture(scope="session")
def few_profiles() -> Iterator[Path]:
    """A folder of few records, written once."""
    with tempfile.TemporaryDirectory() as folder:
        yield write_profiles(Path(folder) / "profiles", FEW)


@pytest.fixture
def world(tmp_path: Path, few_profiles: Path) -> Iterator[RetrainingWorld]:
    """A world of few records, in which no version serves."""
    shutil.copytree(few_profiles, tmp_path / "profiles")
    made = RetrainingWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def without_public_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is started learns from a folder that the environment names: that takes hours."""
    monkeypatch.delenv("PERFMODEL_DATA", raising=False)
