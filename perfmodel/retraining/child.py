"""The process in which a retraining is done: of low priority, and gone when its parent is.

It reads what it shall do from its standard input as a line of JSON, and writes what happens to its
standard output, a line of JSON each, the last of which says how it ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

import orjson
import psutil

from perfmodel.errors import OvertakenError, PerfModelError, StoreError
from perfmodel.registry.file_store import open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.retraining.attempt import Attempt
from perfmodel.retraining.run_folder import Phase
from perfmodel.retraining.workplace import workplace_from
from perfmodel.store.retraining.retraining_records import Retraining
from perfmodel.store.state.database import Database

#: Niceness: whatever answers goes before.
_NICE = 15
#: The last of eight steps of those who wait for a disk like everybody else.
_IO_STEP = 7
_TAIL_CHARACTERS = 2_000


def main() -> None:
    """Do what the first line of standard input says."""
    out = _own_output()
    order = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True, name="end-with-parent").start()
    yield_to_others()

    def write(line: Mapping[str, Any]) -> None:
        out.write(orjson.dumps(line).decode() + "\n")
        out.flush()

    write(_ended(order, write))


def yield_to_others() -> None:
    """Let every other process of the machine go before this one, as far as it can be done."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError, AttributeError, ValueError, psutil.Error):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_BE, _IO_STEP)


def _ended(order: Mapping[str, Any], write: Any) -> dict[str, Any]:
    """Do what is left of a retraining; return how that ended."""
    place = workplace_from(order["place"])
    claim = Retraining(**order["claim"])

    def tell(phase: Phase, text: str) -> None:
        write({"phase": phase.value, "text": text})

    try:
        registry = ModelRegistry(
            open_store(place.models, place.models_options), by=f"retraining {claim.name}"
        )
        database = Database(place.database)
        ending = Attempt(claim, place, database, registry, tell).run()
    except OvertakenError as error:
        return {"ended": "overtaken", "reason": error.message}
    except StoreError as error:
        return {"ended": "later", "reason": error.message}
    except PerfModelError as error:
        return {"ended": "failed", "reason": error.message}
    except Exception as error:  # whatever a library raises, the log shall say where
        for line in traceback.format_exc()[-_TAIL_CHARACTERS:].splitlines():
            write({"phase": "", "text": line})
        return {"ended": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {
        "ended": ending.state.value,
        "version": ending.version,
        "decision": None if ending.verdict is None else ending.verdict.to_dict(),
        "reason": ending.reason,
    }


def _own_output() -> TextIO:
    """Return standard output, and send there nothing else: what libraries print goes to errors."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own


def _end_with_parent() -> None:
    """End this process and those that it started when whoever started it is gone.

    Not by ``sys.stdin``: a read holds its lock, and a forked process that closes it waits for that.
    """
    while os.read(0, 1):
        continue
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
