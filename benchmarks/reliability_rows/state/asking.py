"""Questions to a service that fails on purpose, and what was promised of its answers."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREDICT, OBSERVE = "/v1/predict", "/v1/observations"
JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 32}
QUESTION = {"job": JOB, "placement": "T4"}
#: What is observed, so that nothing that is asked about changes by it.
OBSERVED = {"job_type": "click-rates", "mode": "training", "batch_size": 64}
#: Longer than any answer takes, however busy the machine is.
_PATIENCE_S = 60.0
_LOST = 599


@dataclass
class Caller:
    """Asks a service, and notes what it should not have answered.

    Parameters
    ----------
    port : int
    name : str
        Of its observations.
    acknowledged : set of str
        Keys of the observations that the service said it has.
    wrong : list of str
        Answers that break a promise.
    """

    port: int
    name: str = "key"
    acknowledged: set[str] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def ask(
        self, path: str, body: Any = None, method: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:  # fmt: skip
        """Return status and body of an answer; 599 where the connection was lost."""
        data = None if body is None else json.dumps(body).encode()
        stated = {"Content-Type": "application/json", **(headers or {})}
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data, stated, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return _LOST, repr(error).encode()

    def predict(self, question: Mapping[str, Any] = QUESTION) -> bytes:
        """Ask what has to be answered whatever happens."""
        status, content = self.ask(PREDICT, question)
        if status != 200:
            self.wrong.append(f"a prediction was answered {status}: {content[:200]!r}")
        return content

    def observe(self) -> bool:
        """Send an observation that no other equals; returns whether it was acknowledged."""
        key = f"{self.name}-{next(self._numbers)}"
        seen = {"job": OBSERVED, "placement": "2xT4", "step_time_s": 0.5, "key": key}
        status, content = self.ask(OBSERVE, {"observations": [seen]})
        if status < 300 and json.loads(content)["accepted"] == 1:
            self.acknowledged.add(key)
            return True
        self.note(status, content)
        return False

    def note(self, status: int, content: bytes) -> None:
        """Note a refusal: 503 and 507 are in order, whoever fails otherwise breaks a promise."""
        self.refused[status] += 1
        if status not in (503, 507):
            self.wrong.append(f"a change was answered {status}: {content[:200]!r}")

    def until(self, holds: Callable[[], bool], within_s: float) -> float:
        """Try until something holds; returns after how many seconds it did, and notes if late."""
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > within_s:
                self.wrong.append(f"not within {within_s:g} s: {getattr(holds, '__name__', holds)}")
                break
            time.sleep(0.05)
        return time.monotonic() - began

    def stored(self) -> set[str]:
        """Return the keys of all observations that the service lists."""
        return {one["key"] for one in self.observations()}

    def observations(self) -> list[dict[str, Any]]:
        """Return all observations that the service lists."""
        found: list[dict[str, Any]] = []
        path = first = f"{OBSERVE}?limit=1000"
        while True:
            page = json.loads(self.ask(path)[1])
            found += page["observations"]
            if not page.get("next_cursor"):
                return found
            path = f"{first}&cursor={page['next_cursor']}"


def is_whole(database: Path) -> bool:
    """Tell whether SQLite finds nothing wrong with a file."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def said(wrong: list[str]) -> str:
    """Return what went wrong, the first of it in words."""
    return f"{len(wrong)} broken promises, the first: {wrong[0]}" if wrong else "none broken"
