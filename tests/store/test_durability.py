"""What was acknowledged is there after the process was killed; two processes share a database."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_up_observations import stored_observation

from perfmodel.store.database import Database
from perfmodel.store.observation_feed import ObservationFeed
from perfmodel.store.observations import ObservationStore

TESTS = Path(__file__).resolve().parents[1]


@contextmanager
def child(url: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process that stores observations and prints the key of each that is on disk."""
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "observation_child.py"), url, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _keys(url: str) -> set[str]:
    database = Database(url)
    page = ObservationStore(database.connections).page(limit=1_000)
    database.close()
    return {seen.key for seen in page.items}


@pytest.mark.parametrize("acknowledged", [1, 40])
def test_acknowledged_observations_survive_a_kill(migrated_url: str, acknowledged: int) -> None:
    with child(migrated_url, 1_000) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline().strip() for _ in range(acknowledged)]
        process.kill()  # SIGKILL, in the midst of the next transaction
        seen += process.stdout.read().split()
    kept = _keys(migrated_url)
    assert len(seen) >= acknowledged
    assert len(kept) < 1_000  # it was killed before it was done
    assert set(seen) <= kept
    # The database is whole: the next process goes on with it.
    database = Database(migrated_url)
    ObservationStore(database.connections).add([stored_observation("after")])
    database.close()
    assert _keys(migrated_url) == kept | {"after"}


def test_what_one_process_stores_reaches_another_within_two_seconds(migrated_url: str) -> None:
    database = Database(migrated_url)
    feed = ObservationFeed(
        ObservationStore(database.connections),
        lambda stored: tuple(seen.key for seen in stored),
    )
    assert feed.of("a") == ()
    with child(migrated_url, 1) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "0"
        stored = time.monotonic()
        while feed.of("a") == () and time.monotonic() < stored + 20:
            time.sleep(0.01)
        took_s = time.monotonic() - stored
    feed.close()
    database.close()
    assert feed.of("a") == ("0",)
    assert took_s < 2


def test_two_processes_write_at_the_same_time(migrated_url: str) -> None:
    database = Database(migrated_url)
    store = ObservationStore(database.connections)
    with child(migrated_url, 30) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for i in range(100, 160):
            store.add([stored_observation(f"{i}")])
        process.wait(30)
        assert process.returncode == 0
    database.close()
    assert _keys(migrated_url) == {f"{i}" for i in (*range(30), *range(100, 160))}
