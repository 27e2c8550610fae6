"""Child process that compares two versions: ``python -m service.shadow.child``.

Standard input holds a line of JSON that says what with what. Standard output gets a line of JSON
for some comparisons at a time, then one that says that all is done, or what is wrong. The child
reads the database and writes next to nothing there: it runs when nobody else wants the processor,
and whoever holds a lock must not have to wait for that.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

#: Questions between two lines.
_AT_ONCE = 16


def main() -> None:
    """Compare what was asked, and tell."""
    header = orjson.loads(sys.stdin.buffer.readline())
    step_back(header["memory_bytes"])
    from perfmodel.errors import PerfModelError

    try:
        for line in _lines(header):
            _tell(line)
            if os.getppid() != header["parent"]:
                return
    except PerfModelError as error:
        _tell({"problem": error.message})
    except MemoryError:
        _tell({"problem": f"It needs more than {header['memory_bytes']} bytes of memory."})


def step_back(memory_bytes: int) -> None:
    """Let this process run when no other wants to, in bounded memory."""
    # Each only where the system has it.
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(ValueError, OSError):
        # RLIMIT_DATA counts what is written to, not what is mapped: libraries map far more.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def _tell(line: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    sys.stdout.buffer.flush()


def _lines(header: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    # Imported once it runs behind all others.
    from perfmodel.estimator import Estimator
    from perfmodel.estimator.captures.capture_pool import CapturePool
    from perfmodel.estimator.captures.turns import Turns
    from perfmodel.estimator.jobs.capture_terms import CaptureBudget
    from perfmodel.estimator.jobs.graph_library import GraphLibrary
    from perfmodel.store.shadow.asked_questions import AskedQuestionStore
    from perfmodel.store.shadow.comparisons import ComparisonStore
    from perfmodel.store.state.database import Database
    from service.shadow.comparing import Comparer
    from service.state.state import State
    from service.versions.loaded_versions import LoadedVersions
    from service.versions.own_catalog import OwnCatalog

    folder, model = Path(header["folder"]), header["model"]
    budget = CaptureBudget(time_s=header["capture_timeout_s"])
    capture = CapturePool(Turns(places=1), most=budget)
    graphs = GraphLibrary(
        capture=capture, database=Database(header["database"]), check=capture.check
    )
    estimator = Estimator.from_folder(folder, graphs=graphs)
    state = State.beside(estimator)
    try:
        versions = LoadedVersions(estimator, state, folder)
        OwnCatalog(state, versions)
        against = versions.serving.version
        comparer = Comparer(versions.serving, versions.load(model))
        connections = state.database.connections
        asked = AskedQuestionStore(connections, most=header["most"], most_bytes=0).newest()
        done = ComparisonStore(connections).compared(model, against)
        waiting = [question for question in asked if question.key not in done]
        for start in range(0, len(waiting), _AT_ONCE):
            found = comparer.compare(waiting[start : start + _AT_ONCE])
            yield {"against": against, "comparisons": [asdict(one) for one in found]}
        yield {"done": True}
    finally:
        capture.close()
        state.close()


if __name__ == "__main__":
    main()
