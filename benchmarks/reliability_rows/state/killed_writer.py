"""Stores observations until it is killed; forked for ``killed.py``."""

from __future__ import annotations

import os
import signal
import threading

from clean_forks import fork_on_demand
from made_up_observations import stored_observation

from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_records import Outcome
from perfmodel.store.state.observation_writer import ObservationWriter
from perfmodel.store.state.observations import ObservationStore

#: Threads that store, each of them observations of its own.
_WRITERS = 4


def write(url: str, acknowledged: str, name: str, lives_s: float) -> None:
    """Store from several threads, note what is acknowledged, and be killed in the midst of it."""
    database = Database(url)
    writer = ObservationWriter(ObservationStore(database.connections))
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def store(thread: int) -> None:
        for number in range(1_000_000):
            key = f"{name}-{thread}-{number}"
            if writer.submit([stored_observation(key)]).result() == [Outcome.ADDED]:
                os.write(file, f"{key}\n".encode())

    for thread in range(_WRITERS):
        threading.Thread(target=store, args=(thread,), daemon=True).start()
    threading.Event().wait(lives_s)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    fork_on_demand(write)
