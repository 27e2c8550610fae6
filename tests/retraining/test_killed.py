"""A retraining that is killed, between any two steps that leave a trace."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from migrated import migrated_sqlite
from retraining_world import FEW, RetrainingWorld, write_profiles

from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.state_log import StateLog
from perfmodel.registry.states import PROMOTE, PUBLISH
from perfmodel.registry.version_files import VersionFiles
from perfmodel.retraining import attempt as attempts
from perfmodel.retraining import run_folder
from perfmodel.retraining.run_folder import RunFolder
from perfmodel.store.retraining import RetrainingStore

LEASE_S = 0.1
#: What an attempt does that leaves a trace; a moment before each is the one after what came before.
STEPS: tuple[tuple[Any, str], ...] = (
    (RunFolder, "begin"), (attempts, "take_snapshot"),
    (attempts, "read_learning_data"), (attempts, "fit_parts"), (attempts, "calibrate"),
    (attempts, "gather"), (attempts, "decide"), (attempts, "settle"), (LocalFiles, "write"),
    (LocalFiles, "write_folder"), (RetrainingStore, "decide"), (RetrainingStore, "end"),
    (run_folder, "write_whole"), (StateLog, "append"), (VersionFiles, "put"),
)  # fmt: skip


def _killing(at: int) -> Callable[[], None]:
    """Return what ends this process when it is called for the n-th time."""
    moments = iter(range(at))

    def moment() -> None:
        if next(moments, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return moment


def _around(step: Callable[..., Any], moment: Callable[[], None]) -> Callable[..., Any]:
    def after_moment(*args: Any, **kwargs: Any) -> Any:
        moment()
        return step(*args, **kwargs)

    return after_moment


def _attempt(url: str, folder: Path, at: int | None) -> None:
    world = RetrainingWorld(url=url, folder=folder)
    while (claim := world.store.claim("here", lease_s=LEASE_S)) is None:
        time.sleep(0.02)
    if at is not None:
        moment = _killing(at)
        for owner, name in STEPS:
            setattr(owner, name, _around(getattr(owner, name), moment))
    ending = world.attempt(claim).run()
    plain = None if ending.verdict is None else ending.verdict.to_dict()
    assert world.store.end(claim, ending.state, version=ending.version, decision=plain)
    world.close()


def _in_child(url: str, folder: Path, at: int | None) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=_attempt, args=(url, folder, at))
    child.start()
    child.join(120)
    return child.exitcode


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that waits for no disk, where there is one: a kill needs none to be seen."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def test_a_kill_at_any_moment_takes_effect_once(quick_folder: Path) -> None:
    profiles = write_profiles(quick_folder / "profiles", FEW)
    for at in range(200):
        folder = quick_folder / str(at)
        folder.mkdir()
        (folder / "profiles").symlink_to(profiles)
        world = RetrainingWorld(url=migrated_sqlite(folder), folder=folder)
        name = world.store.start("default", settings=world.quick(members=["efficiency"]))[0].name
        world.close()
        ended = _in_child(world.url, folder, at)
        before = {path.name: path.read_bytes() for path in folder.glob("runs/*/*.json")}
        published = world.registry.versions.names() and world.registry.versions.versions("default")
        world.close()
        if ended != 0:
            assert _in_child(world.url, folder, None) == 0, at
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
            assert at > 20, "so many moments there are at least"
            return
        assert ended == -signal.SIGKILL, at
    pytest.fail("the attempt was never let finish")
