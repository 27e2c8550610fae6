"""Connections to a database with the tables of this version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import migrate


@pytest.fixture
def connections(database_url: str) -> Iterator[Connections]:
    found = Connections(database_url)
    migrate(found)
    yield found
    found.close()
