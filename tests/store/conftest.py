"""A database with the tables of this version, for tests of single stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perfmodel.store.state.database import Database


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()
