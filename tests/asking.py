"""Questions to a service on a real socket, by the standard library."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

from waiting import PATIENCE_S


@dataclass(frozen=True)
class Service:
    """A service at an address."""

    url: str

    def ask(self, path: str, body: Any = None, *, method: str | None = None, **headers: str) -> Any:
        """Return the JSON that is answered; unless it is said, GET without a body, else POST."""
        data = None if body is None else json.dumps(body).encode()
        stated = {"Content-Type": "application/json", **headers}
        request = Request(self.url + path, data, stated, method=method)
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)
