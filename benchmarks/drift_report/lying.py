"""Some of those who report steps to a service lie: what that does to answers about other jobs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

#: By how much the machine is slower than the model says, and how far jobs on it differ, in
#: logarithms; what a measurement is off.
_MACHINE, _JOBS, _NOISE = 0.2, 0.2, 0.02
#: Jobs that each reporter measures, and steps of each.
JOBS_EACH, _STEPS = 4, 2
#: Seconds for which observations are looked for in answers and in what is compared.
_PATIENCE_S = 180.0


class _Reply(Protocol):
    def json(self) -> Any: ...


class Service(Protocol):
    """Asks a service, as the client of tests does."""

    def post(self, path: str, *, json: Any, headers: Mapping[str, str]) -> _Reply:
        """Send a body."""

    def get(self, path: str, *, headers: Mapping[str, str]) -> _Reply:
        """Ask."""

    def delete(self, path: str, *, headers: Mapping[str, str]) -> _Reply:
        """Remove."""


@dataclass(frozen=True, kw_only=True)
class Lied:
    """What lies did.

    Parameters
    ----------
    moved : tuple of float
        ``|answer / answer - 1|`` of each job that was not observed, with lies and without.
    liars, named : frozenset of str
        Who lied, and who is said to disagree.
    """

    moved: tuple[float, ...]
    liars: frozenset[str]
    named: frozenset[str]

    @property
    def said(self) -> str:
        """A line of a table."""
        right, wrong = len(self.named & self.liars), len(self.named - self.liars)
        return (
            f"{max(self.moved):6.1%} {statistics.fmean(self.moved):6.1%}   "
            f"{right} of {len(self.liars)} named, {wrong} by mistake"
        )


@dataclass(frozen=True, kw_only=True)
class Reporters:
    """Callers of a service with keys, and what they can report.

    Parameters
    ----------
    tokens : mapping of str to str
        Key of each reporter by its identifier.
    administrator : str
        A key that may do everything.
    jobs : sequence of mapping
        Each reporter has :data:`JOBS_EACH` of its own; what is left over nobody observes.
    """

    service: Service
    tokens: Mapping[str, str]
    administrator: str
    machine: str
    jobs: Sequence[Mapping[str, Any]]

    def lie(self, share: float, *, seed: int, factor: float = 2.0) -> Lied:
        """Let some report steps so many times as long; before, all tell the truth."""
        random = Random(seed)
        truth = self._truth(random)
        liars = frozenset(random.sample(sorted(self.tokens), round(share * len(self.tokens))))
        self._remove_all()
        for name in self.tokens:
            self._report(name, truth)
        honest = self._answers()
        self._remove_all()
        for name in self.tokens:
            self._report(name, truth, factor=factor if name in liars else 1.0)
        lied = self._answers()
        return Lied(
            moved=tuple(abs(b / a - 1.0) for a, b in zip(honest, lied, strict=True)),
            liars=liars,
            named=self._named(),
        )

    @property
    def _observed(self) -> int:
        return JOBS_EACH * len(self.tokens)

    def _truth(self, random: Random) -> list[list[float]]:
        """Return the steps of each observed job, seconds."""
        self._remove_all()
        off = [_MACHINE + random.gauss(0.0, _JOBS) for _ in range(self._observed)]
        return [
            [self._step_s(job) * math.exp(by + random.gauss(0.0, _NOISE)) for _ in range(_STEPS)]
            for job, by in zip(self.jobs, off, strict=False)
        ]

    def _report(self, name: str, truth: list[list[float]], *, factor: float = 1.0) -> None:
        first = JOBS_EACH * sorted(self.tokens).index(name)
        seen = [
            {"job": self.jobs[at], "placement": self.machine, "step_time_s": factor * step_s}
            for at in range(first, first + JOBS_EACH)
            for step_s in truth[at]
        ]
        headers = _bearer(self.tokens[name])
        answer = self.service.post(
            "/v1/observations", json={"observations": seen}, headers=headers
        ).json()
        assert answer["accepted"] == len(seen), answer

    def _answers(self) -> list[float]:
        time.sleep(1.8)  # until additions are counted
        return [self._step_s(job) for job in self.jobs[self._observed :]]

    def _step_s(self, job: Mapping[str, Any]) -> float:
        body = {"job": job, "placement": self.machine}
        answer = self.service.post(
            "/v1/predict", json=body, headers=_bearer(self.administrator)
        ).json()
        assert "step_time_s" in answer, answer
        return float(answer["step_time_s"])

    def _named(self) -> frozenset[str]:
        until_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until_s:
            found = self.service.get("/v1/drift", headers=_bearer(self.administrator)).json()
            if found["compared"] + found["left_out"] == _STEPS * self._observed:
                lines = found["reporters"]
                return frozenset(line["reporter"] for line in lines if line["disagrees"])
            time.sleep(0.2)
        raise AssertionError(f"observations are not compared within {_PATIENCE_S:g} s")

    def _remove_all(self) -> None:
        path = "/v1/observations?state=accepted"
        self.service.delete(path, headers=_bearer(self.administrator))


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
