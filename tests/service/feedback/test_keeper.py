"""One process of several compares, and another goes on where one was killed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drifting_cluster import Drifting
from fastapi.testclient import TestClient
from guarded_service import make_app
from sqlalchemy import select
from waiting import until

from perfmodel.feedback.drift_fold import DriftFold
from perfmodel.store.sql.tables import RESIDUALS
from service.feedback import drift_keeper
from service.feedback.alarm_book import readable_residuals
from service.state.state import State

TESTS = Path(__file__).resolve().parents[2]


@contextmanager
def _two_keepers(folder: Path) -> Iterator[subprocess.Popen[str]]:
    processes = [_started(folder) for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield processes[0]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _started(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(TESTS / "drift_child.py"), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS.parent,
        env={"PYTHONPATH": f"{TESTS.parent}:{TESTS}", "PATH": ""},
    )


def test_what_a_killed_keeper_left_another_compares_once(tmp_path: Path) -> None:
    app = make_app(tmp_path, drift_poll_s=0.0)
    with TestClient(app) as client:
        cluster = Drifting(client)
        state: State = app.state.dispatcher.state
        with _two_keepers(tmp_path) as first:
            cluster.report(40)
            cluster.drift()
            cluster.report(56, slow={"T4": 1.5})
            until(lambda: state.residuals.counts().compared >= 60)
            first.kill()
            # The other one waits for the lease of the first, if that was the keeper.
            found = cluster.drift()
            (alarm,) = cluster.alarms(1, "open")
        assert found["waiting"] == 0
        with state.database.connections.reading() as connection:
            numbers = Counter(connection.execute(select(RESIDUALS.c.observation)).scalars())
        assert set(numbers.values()) == {1} and len(numbers) == cluster.sent
        # The alarm is the one that follows from the residuals, whoever folded how many of them.
        folded = DriftFold().add_all(readable_residuals(state.residuals.newest(1_000)))
        assert [(one.group.kind, one.group.value, one.opened.at) for one in folded] == [
            (alarm["kind"], alarm["value"], alarm["opened_at"])
        ]
    assert drift_keeper.LEASE_S <= 15.0
