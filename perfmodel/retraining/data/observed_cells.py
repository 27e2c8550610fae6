"""Accepted observations as cells: what each job reached on each placement, whoever said so."""

from __future__ import annotations

import dataclasses
import hashlib
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from perfmodel.errors import PerfModelError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.importers.published import Origin, PublishedStep
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.retraining.data.sources import OBSERVATIONS
from perfmodel.store.retraining.observed_data import AcceptedObservation

#: Share of the cells, those seen first most lately, that are judged on before they are learned
#: from.
NEWEST = 0.2


@dataclass(frozen=True, kw_only=True)
class ObservedCell:
    """A job on a placement, as it was observed.

    Parameters
    ----------
    step_time_s : float
        Median over reporters of the median of each, seconds.
    numbers : tuple of int
        Rows of the observations behind it.
    seen_at : str
        When the first of them was received.
    """

    job: Job
    placement: Placement
    step_time_s: float
    numbers: tuple[int, ...]
    seen_at: str

    @property
    def accelerator(self) -> str | None:
        """The one accelerator that it ran on alone, as it was named; None on other placements."""
        node = self.placement.nodes[0]
        alone = Placement(nodes=(Node(accelerator=node.accelerator),))
        stated = dataclasses.replace(
            self.placement,
            nodes=(dataclasses.replace(node, link=None),),
            network=None,
            fraction=None if self.placement.fraction == 1 else self.placement.fraction,
        )
        return node.accelerator if len(self.placement.nodes) == 1 and stated == alone else None

    @property
    def is_bare_step(self) -> bool:
        """Whether it is the step of a graph on one accelerator, and nothing besides."""
        job = self.job
        known = job.job_type is None and job.script is not True and job.input is None
        return known and self.accelerator is not None

    def published(self) -> PublishedStep:
        """Return it as a published step is, for jobs whose model has a name or a config."""
        assert self.accelerator is not None
        samples = self.job.batch_size * self.job.accumulation_steps
        return PublishedStep(
            job=self.job,
            accelerator=self.accelerator,
            samples_per_second=samples / self.step_time_s,
            origin=Origin(source=OBSERVATIONS, licence="own"),
        )


def cells_of(
    observations: Iterable[AcceptedObservation],
) -> tuple[list[ObservedCell], dict[str, int]]:
    """Return the cells of observations, the one seen first first, and what could not be read."""
    grouped: dict[tuple[Any, ...], list[AcceptedObservation]] = defaultdict(list)
    for one in observations:
        grouped[one.job, one.placement, one.batch_size, one.accumulation_steps].append(one)
    cells: list[ObservedCell] = []
    unread: dict[str, int] = defaultdict(int)
    for group in grouped.values():
        try:
            cells.append(_cell(group))
        except (PerfModelError, orjson.JSONDecodeError) as error:
            unread[type(error).__name__] += len(group)
    cells.sort(key=lambda cell: (cell.seen_at, cell.numbers))
    return cells, dict(unread)


def observations_digest(observations: Sequence[AcceptedObservation]) -> str:
    """Return a SHA-256 over observations, in whatever order they come."""
    lines = sorted(orjson.dumps(dataclasses.asdict(one)) for one in observations)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def newest_cells(cells: Sequence[ObservedCell]) -> list[ObservedCell]:
    """Return the cells that were seen first most lately; later snapshots learn from them."""
    count = round(NEWEST * len(cells))
    return list(cells[len(cells) - count :])


def _cell(group: Sequence[AcceptedObservation]) -> ObservedCell:
    first = group[0]
    by_reporter: dict[str, list[float]] = defaultdict(list)
    for one in group:
        by_reporter[one.reporter].append(one.step_time_s)
    # Each reporter has one voice, however often it speaks.
    medians = [statistics.median(times) for times in by_reporter.values()]
    job = dataclasses.replace(
        parse_job(orjson.loads(first.job)),
        batch_size=first.batch_size,
        accumulation_steps=first.accumulation_steps,
    )
    return ObservedCell(
        job=job,
        placement=parse_placement(orjson.loads(first.placement)),
        step_time_s=statistics.median(medians),
        numbers=tuple(sorted(one.number for one in group)),
        seen_at=min(one.received_at for one in group),
    )
