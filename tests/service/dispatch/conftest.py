"""What reaches its route of what is asked."""

from __future__ import annotations

import pytest
from fastapi import Request

from service.http.bodies import json_body_of
from service.routes import answers


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the bodies of questions that reach their route."""
    seen: list[bytes] = []

    async def noting(request: Request) -> bytes:
        seen.append(await json_body_of(request))
        return seen[-1]

    monkeypatch.setattr(answers, "json_body_of", noting)
    return seen
