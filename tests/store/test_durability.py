"""What was acknowledged is there after the process was killed; two processes share a database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_up_observations import kept_keys, stored_observation
from postgresql import wait_until_alone
from waiting import PATIENCE_S, until

from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.observations import ObservationStore

TESTS = Path(__file__).resolve().parents[1]

#: More than are stored before a process is killed, however late the one that kills it comes.
_ENDLESS = 1_000_000


@contextmanager
def child(url: str, count: int, first: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Start a process that stores observations and prints the key of each that is on disk."""
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "observation_child.py"), url, str(count), str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("acknowledged", [1, 40])
def test_acknowledged_observations_survive_a_kill(migrated_url: str, acknowledged: int) -> None:
    with child(migrated_url, _ENDLESS) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline().strip() for _ in range(acknowledged)]
        process.kill()  # SIGKILL, in the midst of the next transaction
        seen += process.stdout.read().split()
    if not migrated_url.startswith("sqlite"):
        wait_until_alone(migrated_url)  # the server may be about to commit what it was told to
    kept = kept_keys(migrated_url)
    assert len(seen) >= acknowledged
    assert len(kept) < _ENDLESS  # it was killed before it was done
    assert set(seen) <= kept
    # The database is whole: the next process goes on with it.
    database = Database(migrated_url)
    ObservationStore(database.connections).add([stored_observation("after")])
    database.close()
    assert kept_keys(migrated_url) == kept | {"after"}


def test_what_one_process_stores_reaches_another(migrated_url: str) -> None:
    database = Database(migrated_url)
    feed = ObservationFeed(
        ObservationStore(database.connections),
        lambda stored: tuple(seen.key for seen in stored),
    )
    assert feed.of("a") == ()
    with child(migrated_url, 1) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "0"
        until(lambda: feed.of("a"))
    assert feed.of("a") == ("0",)
    feed.close()
    database.close()


def test_two_processes_write_at_the_same_time(migrated_url: str) -> None:
    database = Database(migrated_url)
    store = ObservationStore(database.connections)
    with child(migrated_url, 30) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for i in range(100, 160):
            store.add([stored_observation(f"{i}")])
        process.wait(PATIENCE_S)
        assert process.returncode == 0
    database.close()
    assert kept_keys(migrated_url) == {f"{i}" for i in (*range(30), *range(100, 160))}
