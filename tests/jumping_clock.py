"""The clock of the database, by which leases are measured, put ahead or back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import ColumnElement, Connection

from perfmodel.store.sql import leases


def jump(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """Let the clock of every database that this process asks be so much ahead of what it was."""
    before: Callable[[Connection], ColumnElement[float]] = leases.clock
    monkeypatch.setattr(leases, "clock", lambda connection: before(connection) + by_s)
