"""Jobs, placements and observations, as they are kept and as answers use them.

What was written, or read, lately is not read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import format_placement, parse_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import StoredObservation

logger = logging.getLogger(__name__)

T = TypeVar("T", Job, Placement)

#: Who reported what was stored before reporters were.
UNKNOWN = "unknown"

#: What jobs, and placements, that are remembered take together at most.
_MOST_OF_JOBS, _MOST_OF_PLACEMENTS = 16 * 2**20, 64 * 2**20
#: By how they are kept.
_JOBS: LruCache[str, Job] = LruCache(
    4_096, weigh=lambda content, job: len(content), most_weight=_MOST_OF_JOBS
)
_PLACEMENTS: LruCache[str, Placement] = LruCache(
    16_384,
    weigh=lambda written, placement: len(written) + placement.rough_bytes,
    most_weight=_MOST_OF_PLACEMENTS,
)
#: How they are kept.
_WRITTEN: LruCache[Placement, str] = LruCache(
    16_384,
    weigh=lambda placement, written: len(written) + placement.rough_bytes,
    most_weight=_MOST_OF_PLACEMENTS,
)


def stored_job(job: Job) -> StoredJob:
    """Return a job as it is kept."""
    content = job.content.decode()
    _JOBS.put(content, job)
    return StoredJob(ref=job.reference, family=job.family, content=content)


def stored_placement(placement: Placement) -> str:
    """Return a placement as it is kept: JSON, in its short form where it has one."""
    written = _WRITTEN.get(placement)
    if written is None:
        written = orjson.dumps(format_placement(placement), option=orjson.OPT_SORT_KEYS).decode()
        _WRITTEN.put(placement, written)
    return written


def readable_observations(stored: Sequence[StoredObservation]) -> tuple[Observation, ...]:
    """Return stored observations as answers use them, with their jobs where these came along.

    One that cannot be read is passed over.
    """
    found = []
    for seen in stored:
        try:
            job = _read(_JOBS, seen.job.content, parse_job) if seen.job.content else None
        except (InvalidInputError, orjson.JSONDecodeError) as error:
            logger.warning("job %s cannot be read: %s", seen.job.ref, error)
            continue
        try:
            placement = _read(_PLACEMENTS, seen.placement, parse_placement)
        except InvalidInputError as error:
            logger.warning("observation %s of job %s: %s", seen.key, seen.job.ref, error)
            continue
        found.append(
            Observation(
                placement=placement,
                batch_size=seen.batch_size,
                step_time_s=seen.step_time_s,
                sync_time_s=seen.sync_time_s,
                accumulation_steps=seen.accumulation_steps,
                job=job,
                reporter=seen.reporter or UNKNOWN,
            )
        )
    return tuple(found)


def _read(kept: LruCache[str, T], written: str, read: Callable[[Any], T]) -> T:
    known = kept.get(written)
    if known is None:
        known = read(orjson.loads(written))
        kept.put(written, known)
    return known
