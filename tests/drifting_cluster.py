"""A cluster that reports its steps to a service, and slows down on one card."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any, Protocol

from waiting import until

CARDS = ("T4", "A100-SXM4-80GB", "V100-SXM2-16GB")
JOBS: list[dict[str, Any]] = [
    {"model": f"timm/resnet{depth}", "mode": mode, "batch_size": 32,
     "model_kwargs": {"num_classes": 10 + number}}
    for number, (depth, mode) in enumerate(
        2 * [(18, "training"), (50, "training"), (18, "inference"), (50, "inference")]
    )
]  # fmt: skip


class _Asks(Protocol):
    def post(self, path: str, *, json: Any, headers: Mapping[str, str]) -> Any: ...

    def get(self, path: str, *, headers: Mapping[str, str]) -> Any: ...


class Drifting:
    """Reports steps of :data:`JOBS` on :data:`CARDS`: some noise, and what each job is off."""

    def __init__(self, client: _Asks, headers: Mapping[str, str] | None = None) -> None:
        self._client = client
        self._headers = headers or {}
        self._random = random.Random(1)
        self.sent = 0
        self._base_s = {
            (at, card): self.predicted(job, card)["step_time_s"] * self._off()
            for at, job in enumerate(JOBS)
            for card in CARDS
        }

    def predicted(self, job: Mapping[str, Any], card: str) -> dict[str, Any]:
        """Return what is answered now."""
        body = {"job": job, "placement": card}
        answer: dict[str, Any] = self._client.post(
            "/v1/predict", json=body, headers=self._headers
        ).json()
        return answer

    def report(self, count: int, *, slow: Mapping[str, float] | None = None) -> None:
        """Send so many steps, eight at a time; on cards that are slow they take longer."""
        for start in range(0, count, 8):
            body = {"observations": [self._step(slow or {}) for _ in range(min(8, count - start))]}
            taken = self._client.post("/v1/observations", json=body, headers=self._headers).json()
            assert taken["accepted"] == len(body["observations"]), taken

    def drift(self, compared: int | None = None) -> dict[str, Any]:
        """Return how things stand once all that was sent is compared."""
        wanted = self.sent if compared is None else compared

        def all_compared() -> dict[str, Any] | None:
            found: dict[str, Any] = self._client.get("/v1/drift", headers=self._headers).json()
            return found if found["compared"] == wanted else None

        return until(all_compared, every_s=0.2)

    def alarms(self, count: int, state: str) -> list[dict[str, Any]]:
        """Return so many alarms in a state, once there are."""

        def as_many() -> tuple[list[dict[str, Any]]] | None:
            listed = self._client.get("/v1/drift", headers=self._headers).json()["alarms"]
            found = [one for one in listed if one["state"] == state]
            return (found,) if len(found) == count else None

        return until(as_many, every_s=0.2)[0]

    def _step(self, slow: Mapping[str, float]) -> dict[str, Any]:
        at, card = self._random.randrange(len(JOBS)), self._random.choice(CARDS)
        self.sent += 1
        took_s = self._base_s[at, card] * math.exp(self._random.gauss(0.0, 0.02))
        return {
            "job": JOBS[at],
            "placement": card,
            "step_time_s": took_s * slow.get(card, 1.0),
            "key": f"step-{self.sent}",
            "software": {"driver": "550.54.15"},
        }

    def _off(self) -> float:
        return math.exp(0.3 + self._random.gauss(0.0, 0.1))
