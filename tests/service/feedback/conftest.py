"""A service whose callers have keys, and a cluster that they report of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import report_path  # noqa: F401
from fastapi import FastAPI
from fastapi.testclient import TestClient
from guarded_service import CREATED, make_app

from service.access.key_file import KeyFile
from service.access.keys import new_key


@dataclass(frozen=True)
class Reported:
    """A service, the keys of its reporters by their identifiers, and that of an administrator."""

    app: FastAPI
    client: TestClient
    tokens: Mapping[str, str]
    administrator: str

    @property
    def admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.administrator}"}


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[Reported]:
    keys = KeyFile(tmp_path / "keys.json")
    tokens = {}
    for number in range(10):
        token, key = new_key(f"reporter {number}", ["observe"], created_at=CREATED)
        keys.add(key)
        tokens[key.key_id] = token
    administrator, key = new_key("admin", ["admin"], created_at=CREATED)
    keys.add(key)
    app = make_app(tmp_path, keys=tmp_path / "keys.json", drift_poll_s=0.1)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Reported(app=app, client=client, tokens=tokens, administrator=administrator)
