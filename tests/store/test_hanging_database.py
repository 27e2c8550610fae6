"""A PostgreSQL that answers nothing costs a bounded time, then none, and is found again."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest
from postgresql import PostgresqlServer
from sqlalchemy import text
from waiting import until

from perfmodel.errors import StoreError
from perfmodel.store.sql.connections import Breaker, Connections
from perfmodel.store.sql.watchdog import Watchdog
from perfmodel.store.state.database import Database


def _refused(database: Database) -> str:
    """Return in which words a question was refused."""
    with pytest.raises(StoreError) as caught:
        database.graph("ab")
    return str(caught.value)


def test_a_server_that_hangs_is_left_alone_until_it_answers(postgresql: PostgresqlServer) -> None:
    database = Database(postgresql.migrated_database())
    assert database.graph("ab") is None
    with postgresql.hanging():
        # That it comes back while the server still hangs is what is shown.
        assert "cannot be used" in _refused(database)
        # Without a try; where this thread rested for longer than it is left alone, one was made.
        until(lambda: "did not answer lately" in _refused(database), every_s=0.0)
    until(lambda: _answers(database), every_s=0.1)
    database.close()


def _answers(database: Database) -> bool:
    try:
        assert database.graph("ab") is None
    except StoreError:
        return False
    return True


def test_a_server_that_hangs_within_a_transaction_is_cut_off(postgresql: PostgresqlServer) -> None:
    url = postgresql.migrated_database()

    connections = Connections(url)
    with pytest.raises(StoreError), connections.reading() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
        with postgresql.hanging():
            connection.execute(text("SELECT 1"))
    connections.close()


def test_the_server_ends_what_takes_too_long_by_itself(postgresql: PostgresqlServer) -> None:
    connections = Connections(postgresql.migrated_database())
    with connections.writing() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 100"))
        with pytest.raises(Exception, match="statement timeout"):
            connection.execute(text("SELECT pg_sleep(60)"))
        connection.rollback()
    with connections.reading() as connection:  # it answered: nobody is kept from it
        assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "5s"
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "3s"
    connections.close()


class _Connection:
    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.closed = False

    def fileno(self) -> int:
        return self._end.fileno()


def test_a_wait_ends_at_its_limit_and_not_before() -> None:
    near, far = socket.socketpair()
    with closing(near), closing(far):
        watchdog = Watchdog()
        connection = _Connection(near)
        with watchdog.limiting(connection, 30.0):
            far.send(b"x")
            assert near.recv(1) == b"x"
        began = time.monotonic()
        with watchdog.limiting(connection, 0.2):
            assert near.recv(1) == b""  # nobody sends anything: it is cut
        assert time.monotonic() - began > 0.15
        watchdog.close()


def test_one_caller_tries_while_others_are_refused() -> None:
    now = [0.0]
    breaker = Breaker(pause_s=1.0, trial_s=5.0, clock=lambda: now[0])
    breaker.failed()
    with pytest.raises(StoreError):
        breaker.check()
    now[0] = 1.5
    breaker.check()  # the one that tries
    with pytest.raises(StoreError):
        breaker.check()
    breaker.worked()
    breaker.check()
    breaker.failed()
    now[0] = 3.0
    breaker.check()
    now[0] = 8.1  # whoever tried was never heard of again
    breaker.check()
