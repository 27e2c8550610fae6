"""A process of its own that stores observations, and says of each when it is on disk.

python observation_child.py URL COUNT [FIRST]
"""

from __future__ import annotations

import sys

from made_up_observations import stored_observation

from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_records import Outcome
from perfmodel.store.state.observation_writer import ObservationWriter
from perfmodel.store.state.observations import ObservationStore


def main(url: str, count: int, first: int = 0) -> None:
    """Store observations whose keys count on from a first one, some in each transaction."""
    database = Database(url)
    writer = ObservationWriter(ObservationStore(database.connections))
    for begin in range(first, first + count, 3):
        keys = [f"{i}" for i in range(begin, min(begin + 3, first + count))]
        futures = [writer.submit([stored_observation(key)]) for key in keys]
        for key, future in zip(keys, futures, strict=True):
            assert future.result() == [Outcome.ADDED]
            print(key, flush=True)
    writer.close()
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
