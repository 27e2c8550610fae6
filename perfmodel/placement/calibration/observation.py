"""An observed step of a job: what a user, a scheduler or a profiler has seen it reach."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job, own_batch
from perfmodel.graph.job_form import parse_job
from perfmodel.json_values import (
    as_count,
    as_flag,
    as_number,
    as_object,
    shown,
)
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Placement

#: Most observations that one request may carry.
MOST_OBSERVATIONS = 1000

#: Time of a step that ran out of memory: it never ends.
RAN_OUT_S = math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One cell of a job that was measured, or that ran out of memory.

    Parameters
    ----------
    batch_size : int
        Samples per replica and micro-batch.
    step_time_s : float
        Whole step, all micro-batches; :data:`RAN_OUT_S` of one that ran out of memory.
    sync_time_s : float or None
        The part of it logged as synchronisation of gradients.
    accumulation_steps : int
        Micro-batches of the step.
    job : Job or None
        The job that was measured, where it is another one than the one that is asked about; its
        batch is the one stated here.
    reporter : str
        Who saw it, such as the identity of a key; empty for whoever asks.
    """

    placement: Placement
    batch_size: int
    step_time_s: float
    sync_time_s: float | None = None
    accumulation_steps: int = 1
    job: Job | None = None
    reporter: str = ""

    @property
    def cell(self) -> tuple[Placement, int, int]:
        """Placement, batch size and micro-batches."""
        return self.placement, self.batch_size, self.accumulation_steps

    @property
    def ran_out(self) -> bool:
        """Whether it ran out of memory: it then has no time, and says what does not fit."""
        return self.step_time_s == RAN_OUT_S

    @property
    def content(self) -> tuple[object, ...]:
        """What sorts observations, whichever came first."""
        return (
            repr(self.placement), self.batch_size, self.accumulation_steps, self.step_time_s,
            -1.0 if self.sync_time_s is None else self.sync_time_s, self.reporter,
            "" if self.job is None else repr(self.job),
        )  # fmt: skip


def heard(
    observations: Sequence[Observation],
    cell_of: Callable[[Observation], Hashable] = attrgetter("cell"),
) -> list[Observation]:
    """Return what was observed of a job without what others say of cells that whoever asks tells.

    Parameters
    ----------
    observations : sequence of Observation
        Of one job.
    cell_of : callable
        Tells cells apart.
    """
    told = {cell_of(one) for one in observations if not one.reporter}
    return [one for one in observations if not one.reporter or cell_of(one) not in told]


#: Who reported a step is not for whoever asks to say.
_FIELDS = (
    *(one.name for one in dataclasses.fields(Observation) if one.name != "reporter"),
    "out_of_memory",
)


def parse_observations(value: object, job: Job | None = None) -> tuple[Observation, ...]:
    """Read a list of observations; null means none.

    Parameters
    ----------
    value : sequence or None
        Each ``{"placement": ..., "batch_size": ..., "step_time_s": ..., "sync_time_s": ...}``;
        ``sync_time_s`` may be left out. ``"out_of_memory": true`` in the place of times says that
        it ran out of memory. ``job`` says that another job was measured; its batch size may be
        left out there.
    job : Job or None
        The job that is asked about. An observation of it has its ``batch_size`` and
        ``accumulation_steps``, unless it states them; one of another job has those of that.

    Raises
    ------
    InvalidInputError
        Not a list, too many, or a field that is missing, unknown or out of range.
    """
    if value is None:
        return ()
    items = _listed(value)
    if len(items) > MOST_OBSERVATIONS:
        raise InvalidInputError(
            f"At most {MOST_OBSERVATIONS} observations; got {len(items)}.", pointer="/observations"
        )
    return tuple(parse_observation(one, f"/observations/{i}", job) for i, one in enumerate(items))


class Unread(NamedTuple):
    """An observation of a job that is not known yet, and where it stands in the question."""

    fields: dict[str, object]
    pointer: str


def parse_matrix_observations(value: object, jobs: int) -> dict[int, tuple[Unread, ...]]:
    """Sort the observations of a matrix by the positions of their jobs.

    Parameters
    ----------
    value : sequence
        Each as for :func:`parse_observations`, with the position of its ``job``.

    Raises
    ------
    InvalidInputError
        Not a list, or a position at which there is no job.

    Examples
    --------
    >>> seen = {"job": 1, "placement": "T4", "batch_size": 64, "step_time_s": 0.5}
    >>> {job: len(found) for job, found in parse_matrix_observations([seen], 2).items()}
    {1: 1}
    """
    found: dict[int, list[Unread]] = {}
    for position, item in enumerate(_listed(value)):
        at = f"/observations/{position}"
        job = item.get("job") if isinstance(item, dict) else None
        if not isinstance(job, int) or isinstance(job, bool) or not 0 <= job < jobs:
            raise InvalidInputError(
                f"job is the position of the observed job in jobs, from 0 to {jobs - 1}.",
                pointer=f"{at}/job",
            )
        plain = {name: field for name, field in item.items() if name != "job"}
        found.setdefault(job, []).append(Unread(plain, at))
    return {job: tuple(unread) for job, unread in found.items()}


def read_by_job(
    unread: Mapping[int, Sequence[Unread]], jobs: Sequence[Job | Exception]
) -> dict[int, tuple[Observation, ...]]:
    """Read the observations of a matrix, now that its jobs are known; as for one job.

    Parameters
    ----------
    jobs : sequence of Job or Exception
        What was observed of one that cannot be read counts for nothing.
    """
    return {
        row: tuple(parse_observation(one.fields, one.pointer, job) for one in unread[row])
        for row, job in enumerate(jobs)
        if row in unread and isinstance(job, Job)
    }


def _listed(value: object) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise InvalidInputError(
        f"observations must be a list; got {shown(value)}.", pointer="/observations"
    )


def parse_observation(value: object, pointer: str, job: Job | None = None) -> Observation:
    """Read one observation; as :func:`parse_observations`."""
    fields = as_object(value, pointer, what="An observation", known=_FIELDS)
    if fields.get("placement") is None:
        raise _missing("placement", pointer)
    step_time_s, sync = _times(fields, pointer)
    counts = {
        name: as_count(name, fields[name], f"{pointer}/{name}")
        for name in ("batch_size", "accumulation_steps")
        if fields.get(name) is not None
    }
    other = None
    if fields.get("job") is not None:
        other = _observed_job(fields["job"], counts, f"{pointer}/job")
    measured = job if other is None else other
    if measured is not None:
        steps = measured.accumulation_steps
        counts = {"batch_size": own_batch(measured), "accumulation_steps": steps} | counts
    elif "batch_size" not in counts:
        raise _missing("batch_size", pointer)
    return Observation(
        placement=parse_placement(fields["placement"], pointer=f"{pointer}/placement"),
        step_time_s=step_time_s,
        sync_time_s=sync,
        job=other,
        batch_size=counts["batch_size"],
        accumulation_steps=counts.get("accumulation_steps", 1),
    )


def _missing(name: str, pointer: str) -> InvalidInputError:
    return InvalidInputError(
        f"An observation needs the field {name!r}.", pointer=f"{pointer}/{name}"
    )


def _times(fields: Mapping[str, object], pointer: str) -> tuple[float, float | None]:
    """Read the time of a step and of its synchronisation, or that it ran out of memory."""
    step, sync, ran_out = (
        fields.get(name) for name in ("step_time_s", "sync_time_s", "out_of_memory")
    )
    if ran_out is not None and as_flag("out_of_memory", ran_out, f"{pointer}/out_of_memory"):
        if step is not None or sync is not None:
            raise InvalidInputError(
                "A step that ran out of memory has no time; leave step_time_s and sync_time_s out, "
                "or out_of_memory.",
                pointer=f"{pointer}/out_of_memory",
            )
        return RAN_OUT_S, None
    if step is None:
        raise InvalidInputError(
            "An observation needs the field 'step_time_s', or out_of_memory: true in its place.",
            pointer=f"{pointer}/step_time_s",
        )
    step_time_s = as_number("step_time_s", step, f"{pointer}/step_time_s")
    if sync is None:
        return step_time_s, None
    sync_time_s = as_number("sync_time_s", sync, f"{pointer}/sync_time_s", least=0.0)
    if sync_time_s > step_time_s:
        raise InvalidInputError(
            f"sync_time_s is a part of step_time_s; got {sync} of {step_time_s}.",
            pointer=f"{pointer}/sync_time_s",
        )
    return step_time_s, sync_time_s


def _observed_job(value: object, counts: Mapping[str, int], pointer: str) -> Job:
    fields = as_object(value, pointer, what="The job of an observation")
    # What was measured is one batch of it, which the observation may state.
    return parse_job({**counts, **fields}, pointer=pointer)
