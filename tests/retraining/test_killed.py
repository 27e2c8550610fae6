"""A retraining that is killed, between any two steps that leave a trace."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clean_forks import CleanForks
from migrated import migrated_sqlite
from often import often
from retraining_world import FEW, RetrainingWorld, write_profiles

from perfmodel.registry.states import PROMOTE, PUBLISH


@pytest.fixture
def attempts() -> Iterator[CleanForks]:
    """Return what retrains in processes that may be killed."""
    with CleanForks(Path(__file__).with_name("killed_child.py")) as forks:
        yield forks


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that waits for no disk, where there is one: a kill needs none to be seen."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize("turn", range(often(1)))
def test_a_kill_at_any_moment_takes_effect_once(
    turn: int,
    quick_folder: Path,
    attempts: CleanForks,
    record_property: Callable[[str, object], None],
) -> None:
    profiles = write_profiles(quick_folder / "profiles", FEW)
    for at in range(200):
        folder = quick_folder / str(at)
        folder.mkdir()
        (folder / "profiles").symlink_to(profiles)
        world = RetrainingWorld(url=migrated_sqlite(folder), folder=folder)
        name = world.store.start("default", settings=world.quick(members=["efficiency"]))[0].name
        world.close()
        ended = attempts.run(world.url, folder, at)
        before = {path.name: path.read_bytes() for path in folder.glob("runs/*/*.json")}
        published = world.registry.versions.names() and world.registry.versions.versions("default")
        world.close()
        if ended != 0:
            assert attempts.run(world.url, folder, None) == 0, at
        found = world.store.find(name)
        assert found is not None and found.state.value == "done", (at, found)
        # One version, whose name was never another once it was known; each change once.
        (version,) = world.registry.versions.versions("default")
        assert version == found.version and published in ([], [version]), at
        changes = world.registry.history("default").changes
        assert [(one.action, one.version) for one in changes] == [
            (PUBLISH, version), (PROMOTE, version),
        ], at  # fmt: skip
        assert world.registry.serving("default") == version
        world.registry.versions.content("default", version)
        # What was finished before the kill was not done again.
        after = {path.name: path.read_bytes() for path in folder.glob("runs/*/*.json")}
        assert {one: after[one] for one in before} == before, at
        assert len(after) == 7
        world.close()
        if ended == 0:
            record_property("kills of a retraining", at)
            assert at > 20, "so many moments there are at least"
            return
        assert ended == -signal.SIGKILL, at
    pytest.fail("the attempt was never let finish")
