"""Made-up clusters whose answers drift for a known cause.

Jobs come and go, each of one reporter and class, on one release, on one to three cards. An answer
knows what a median of the newest steps of a cell would tell; of a new cell, what the job took
elsewhere; of a new job, nothing but the model, which is off by what it is. Now and then one job is
changed by whoever runs it. From one observation on, everything of one group takes longer.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from perfmodel.feedback.residuals import Group, Residual, groups_of

CARDS = ("A100", "V100", "T4", "L4", "H100", "A10")
RELEASES = ("2.7.1", "2.8.0", "2.9.1")
CLASSES = (
    ("training", "convolutions"), ("training", "products"), ("training", "attention"),
    ("inference", "convolutions"), ("inference", "attention"),
)  # fmt: skip
REPORTERS = tuple(f"reporter-{number}" for number in range(10))

#: What may be the cause of a drift, by the kind of its group.
CAUSES = {
    "accelerator": Group("accelerator", "T4"),
    "software": Group("software", "torch 2.10"),
    "job_class": Group("job_class", "training of attention"),
    "reporter": Group("reporter", "reporter-3"),
    "all": Group("all", "all"),
}

#: Spread of what the model is off for a job, a job on a card, a cell of it; of a measurement.
_JOB, _ON_CARD, _CELL, _NOISE = 0.3, 0.15, 0.05, 0.02
#: What the intervals of answers say of cells, of jobs on a card, of jobs elsewhere, of new jobs.
_SCALES = (0.04, 0.08, 0.2, 0.36)
_JOBS = 40
#: Observations between two new jobs, and between two that are changed.
_NEW_EVERY, _CHANGED_EVERY = 40, 200
#: Share of the jobs that are on the new release once it is there.
_UPGRADED = 0.4


@dataclass(kw_only=True, eq=False)
class _Job:
    name: str
    reporter: str
    kind: tuple[str, str]
    release: str
    cards: tuple[str, ...]
    off: float
    upgraded: bool
    off_on: dict[tuple[str, int], float] = field(default_factory=dict)
    seen: dict[tuple[str, int], list[float]] = field(default_factory=dict)


class Cluster:
    """Observations of a cluster, one after the other.

    Parameters
    ----------
    cause : str or None
        Of :data:`CAUSES`; None: nothing drifts.
    shift : float
        By how much longer steps of its group take, in logarithms.
    begins : int
        With which observation.
    """

    def __init__(
        self, seed: int, *, cause: str | None = None, shift: float = 0.0, begins: int = 0
    ) -> None:
        self._random = Random(seed)
        self._cause, self._shift, self._begins = cause, shift, begins
        self._made = 0
        self._jobs = [self._new_job() for _ in range(_JOBS)]

    def residuals(self, count: int) -> Iterator[Residual]:
        """Yield so many residuals."""
        for number in range(1, count + 1):
            if number % _NEW_EVERY == 0:
                self._jobs[self._random.randrange(_JOBS)] = self._new_job()
            if number % _CHANGED_EVERY == 0:
                self._random.choice(self._jobs).off += self._random.gauss(0.0, 0.2)
            yield self._residual(number, self._random.choice(self._jobs))

    def _residual(self, number: int, job: _Job) -> Residual:
        card, batch = self._random.choice(job.cards), self._random.choice((32, 64))
        begun = number >= self._begins
        release = "2.10.0" if begun and self._cause == "software" and job.upgraded else job.release
        groups = groups_of(
            accelerator=card,
            software={"torch": release},
            mode=job.kind[0],
            operators=job.kind[1],
            reporter=job.reporter,
        )
        is_meant = begun and self._cause is not None and CAUSES[self._cause] in groups
        level = (
            job.off + self._off(job, (card, -1), _ON_CARD) + self._off(job, (card, batch), _CELL)
        )
        noise = self._random.gauss(0.0, _NOISE) / math.sqrt(self._random.gammavariate(2.0, 0.5))
        measured = level + noise + (self._shift if is_meant else 0.0)
        answered, scale = _answer(job, card, batch)
        job.seen.setdefault((card, batch), []).append(measured)
        return Residual(
            number=number,
            at=f"{number:08d}",
            log_ratio=measured - answered,
            scale=scale,
            job=job.name,
            groups=groups,
        )

    def _off(self, job: _Job, where: tuple[str, int], spread: float) -> float:
        if where not in job.off_on:
            job.off_on[where] = self._random.gauss(0.0, spread)
        return job.off_on[where]

    def _new_job(self) -> _Job:
        self._made += 1
        return _Job(
            name=f"job-{self._made}",
            reporter=self._random.choice(REPORTERS),
            kind=self._random.choice(CLASSES),
            release=self._random.choice(RELEASES),
            cards=tuple(self._random.sample(CARDS, self._random.randint(1, 3))),
            off=self._random.gauss(0.0, _JOB),
            upgraded=self._random.random() < _UPGRADED,
        )


def _answer(job: _Job, card: str, batch: int) -> tuple[float, float]:
    """Return what would be answered, beside the model, and its standard deviation."""
    cell = job.seen.get((card, batch))
    if cell:
        return statistics.median(cell[-5:]), _SCALES[0]
    there = [value for (where, _), seen in job.seen.items() if where == card for value in seen[-5:]]
    if there:
        return statistics.median(there), _SCALES[1]
    elsewhere = [value for seen in job.seen.values() for value in seen[-5:]]
    return (statistics.median(elsewhere), _SCALES[2]) if elsewhere else (0.0, _SCALES[3])
