"""A service whose callers have keys, for tests of what reporters do to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def reported_service(folder: Path) -> Iterator[Reported]:
    """Run a service with ten reporters and an administrator."""
    keys = KeyFile(folder / "keys.json")
    tokens = {}
    for number in range(10):
        token, key = new_key(f"reporter {number}", ["observe"], created_at=CREATED)
        keys.add(key)
        tokens[key.key_id] = token
    administrator, key = new_key("admin", ["admin"], created_at=CREATED)
    keys.add(key)
    app = make_app(folder, keys=folder / "keys.json", drift_poll_s=0.1, drift_share=1.0)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Reported(app=app, client=client, tokens=tokens, administrator=administrator)
