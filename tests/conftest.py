"""Fixtures that more than one part of the suite uses."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from postgresql import PostgresqlServer, running_postgresql
from slowest import Slowest

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import migrate

if TYPE_CHECKING:
    from perfmodel.graph.job import Job
    from perfmodel.training.captures.capture_child import CaptureFailure

# Two threads at most, set before any numeric library loads: tests share a small machine, and
# results must not depend on how many cores it has.
os.environ.setdefault("OMP_NUM_THREADS", "2")
# One that waits for the other sleeps: spinning keeps what else runs here from the processor.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Hundreds of processes start here: each reads what the first of them compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A retraining that a test of the service enters is done where a test says so.
os.environ.setdefault("PERFMODEL_RETRAIN_HERE", "false")

# Every run draws the same examples, and none fails because the machine was busy with another thing.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests, of which none goes before the end, without looking for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let two runs on one machine wait for no lock of each other's."""
    tmp_path_factory.getbasetemp()  # stays where it is kept from run to run
    folder = tempfile.mkdtemp(prefix="perfmodel-")
    Path(folder).chmod(0o755)  # a database server that is started by root is another user
    # When the process ends, after the folder that multiprocessing has in it.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=-200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


def _settings() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith("PERFMODEL_")}


@pytest.fixture(autouse=True)
def settings_of_its_own() -> Iterator[None]:
    """Take back what a command that ran in this process put into the environment as settings."""
    before = _settings()
    yield
    for name in _settings().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture
def slowest(record_property: Callable[[str, object], None]) -> Iterator[Slowest]:
    """Tell beside the verdict how long the slowest of what a test times took."""
    found = Slowest()
    yield found
    record_property("slowest_s", found.seconds)


@pytest.fixture
def captured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture sketches in this process where a worker of its own is not the point."""
    from perfmodel.store.sketches import SketchFiles
    from perfmodel.training.captures.capture_worker import sketch_arrays

    class Here:
        def __init__(self, folder: Path, **_: object) -> None:
            self.files = SketchFiles(folder)

        def run(self, jobs: Mapping[str, Job]) -> dict[str, CaptureFailure]:
            for key, job in jobs.items():
                self.files.write(key, sketch_arrays(job))
            return {}

    monkeypatch.setattr("perfmodel.training.captures.kept_sketches.CapturePool", Here)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """Run a PostgreSQL as long as the tests do."""
    with running_postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an SQLite file of the newest schema, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "state.db"
    connections = Connections(f"sqlite:///{path}")
    migrate(connections)
    connections.close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def new_migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return what makes databases with empty tables, once of each kind, one after the other."""
    if request.param == "sqlite":
        migrated: Path = request.getfixturevalue("migrated_file")
        names = (f"state-{number}.db" for number in itertools.count())
        return lambda: f"sqlite:///{shutil.copy(migrated, tmp_path / next(names))}"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.migrated_database


@pytest.fixture
def migrated_url(new_migrated_url: Callable[[], str]) -> str:
    """Return the URL of a database with empty tables, once of each kind."""
    return new_migrated_url()
