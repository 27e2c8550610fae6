"""Retrains in processes that may be killed; forked for ``test_killed.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clean_forks import fork_on_demand
from killed_at import kill_at
from retraining_world import RetrainingWorld

from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.state_log import StateLog
from perfmodel.registry.version_files import VersionFiles
from perfmodel.retraining import attempt as attempts
from perfmodel.retraining import run_folder
from perfmodel.retraining.run_folder import RunFolder
from perfmodel.store.retraining import RetrainingStore

STEPS: tuple[tuple[Any, str], ...] = (
    (RunFolder, "begin"), (attempts, "take_snapshot"),
    (attempts, "read_learning_data"), (attempts, "fit_parts"), (attempts, "calibrate"),
    (attempts, "gather"), (attempts, "decide"), (attempts, "settle"), (LocalFiles, "write"),
    (LocalFiles, "write_folder"), (RetrainingStore, "decide"), (RetrainingStore, "end"),
    (run_folder, "write_whole"), (StateLog, "append"), (VersionFiles, "put"),
)  # fmt: skip


def attempt(url: str, folder: str, at: int | None) -> None:
    """Do what waits; be killed at a moment, if one is named."""
    world = RetrainingWorld(url=url, folder=Path(folder))
    # Whoever comes next takes it over at once.
    claim = world.store.claim("here", lease_s=0.0)
    assert claim is not None
    if at is not None:
        kill_at(at, STEPS)
    ending = world.attempt(claim).run()
    plain = None if ending.verdict is None else ending.verdict.to_dict()
    assert world.store.end(claim, ending.state, version=ending.version, decision=plain)
    world.close()


if __name__ == "__main__":
    fork_on_demand(attempt)
