"""Take observations in: read, judge, and on disk before they are acknowledged."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from perfmodel.errors import InvalidInputError, MissingExtraError, PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.evidence.observed_rows import named
from perfmodel.estimator.evidence.step_bounds import check_possible
from perfmodel.graph.job import Job
from perfmodel.json_values import as_items, as_number, as_object, as_text, refuse_unknown, shown
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.requests import parse_observation
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import ObservationState, Outcome, StoredObservation
from service.dispatch.dispatcher import Dispatcher
from service.http.errors import problem_of
from service.observations.plausibility import Bounds, Plausibility
from service.schemas.question_bodies import (
    MOST_COMPONENTS,
    MOST_EXPIRES_IN_S,
    MOST_OF_A_KEY,
    MOST_OF_A_VERSION,
    MOST_REPORTS,
)
from service.state.stored_forms import stored_job, stored_placement

#: Observations that are judged in one turn; between two of them others have theirs.
_IN_ONE_TURN = 64

#: What jobs that were read before take together at most, as JSON.
_MOST_BYTES = 32 * 2**20

_MEASURED = (
    "placement", "batch_size", "accumulation_steps", "step_time_s", "sync_time_s", "out_of_memory",
)  # fmt: skip
_FIELDS = ("job", *_MEASURED, "software", "key", "expires_in_s")

#: Errors that are of one observation; any other is of the service, and of the whole request.
_OF_ONE = (InvalidInputError, MissingExtraError)

#: What an observation of an answer may be.
_STATUSES = ("accepted", "quarantined", "known", "refused")


#: Names and versions, sorted.
_Software = tuple[tuple[str, str], ...]


class _Read(NamedTuple):
    """An observation as it was sent, and where it stands in its request."""

    pointer: str
    job: Job
    stored: StoredJob
    seen: Observation
    said: Mapping[str, Any]


class _Judged(NamedTuple):
    """An observation as it is kept, and what was expected of its cell."""

    stored: StoredObservation
    bounds: Bounds


class ObservationIntake:
    """Takes observations in; a job that came before is not read again."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._state = state = dispatcher.state
        self._depth = dispatcher.metrics.queue("observations")
        self._plausibility = Plausibility(dispatcher.estimator, state.feed)
        self._jobs: LruCache[bytes, tuple[Job, StoredJob]] = LruCache(
            4_096, weigh=lambda written, job: len(written), most_weight=_MOST_BYTES
        )

    async def take(self, body: Any, *, reporter: str = "") -> dict[str, Any]:
        """Keep the observations of a request; when this returns they are on disk.

        Parameters
        ----------
        reporter : str
            Who sends them.

        Returns
        -------
        dict
            The answer: what became of each.

        Raises
        ------
        InvalidInputError
            There is no list, or nothing in it can be read.
        StoreError
            The database cannot be written: nothing of the request is acknowledged.
        """
        values = _observations_of(body)
        judged: list[_Judged | PerfModelError] = []
        for first in range(0, len(values), _IN_ONE_TURN):
            some = values[first : first + _IN_ONE_TURN]
            judged += await self._dispatcher.threads.run(self._read, some, first, reporter)
        kept = [one for one in judged if isinstance(one, _Judged)]
        if not kept and isinstance(judged[0], PerfModelError):
            raise judged[0]
        self._depth.inc(len(kept))
        try:
            written = self._state.writer.submit([one.stored for one in kept])
            outcomes = await asyncio.wrap_future(written)
        finally:
            self._depth.dec(len(kept))
        self._state.feed.forget({one.stored.job.family for one in kept})
        self._count(kept, outcomes)
        left = iter(outcomes)
        items = [
            _item(one, next(left)) if isinstance(one, _Judged) else _refused(problem_of(one))
            for one in judged
        ]
        words = [item["status"] for item in items]
        return {**{word: words.count(word) for word in _STATUSES}, "observations": items}

    def _count(self, kept: Sequence[_Judged], outcomes: Sequence[Outcome]) -> None:
        """Hold what was predicted against each observation that is new and believed.

        Both are of one step, so that their throughputs are inversely as its times:
        ``observed = predicted * predicted_step_time / observed_step_time``.
        """
        for (stored, bounds), outcome in zip(kept, outcomes, strict=True):
            predicted = bounds.predicted
            is_new = outcome is Outcome.ADDED
            if predicted is None or stored.reason or not is_new:
                continue
            self._dispatcher.metrics.observation(
                bounds.kind,
                predicted.samples_per_second * predicted.step_time_s / stored.step_time_s,
                predicted=predicted.samples_per_second,
                low=predicted.low,
                high=predicted.high,
            )

    def _read(
        self, values: Sequence[Any], first: int, reporter: str
    ) -> list[_Judged | PerfModelError]:
        """Judge some observations of a request, of which the first has this position."""
        estimator = self._dispatcher.estimator
        if self._plausibility.estimator is not estimator:
            # It remembers what one version of the model says.
            self._plausibility = Plausibility(estimator, self._state.feed)
        plausibility = self._plausibility
        core, read = estimator.core, list[_Read | PerfModelError]()
        for position, value in enumerate(values, first):
            try:
                read.append(self._parse(value, f"/observations/{position}", core))
            except _OF_ONE as error:
                read.append(error)
        together: defaultdict[str, list[Observation]] = defaultdict(list)
        for one in read:
            if isinstance(one, _Read):
                together[one.stored.family].append(one.seen)
        judged: list[_Judged | PerfModelError] = []
        for one in read:
            if isinstance(one, PerfModelError):
                judged.append(one)
                continue
            try:
                beside = together[one.stored.family]
                judged.append(_judged(one, plausibility, reporter, beside))
            except _OF_ONE as error:
                judged.append(error)
        return judged

    def _parse(self, value: object, pointer: str, core: Core) -> _Read:
        """Read one observation.

        Parameters
        ----------
        value : mapping
            ``{"job": {...} or "<ref>", "placement": ..., "step_time_s": ...}``, or
            ``"out_of_memory": true`` in the place of times; ``batch_size`` and
            ``accumulation_steps`` are the job's, ``sync_time_s`` and ``software`` are not known and
            ``key`` is the hash of the content, unless they are given. Sent again with another
            ``expires_in_s`` it is the same observation.
        """
        fields = as_object(value, pointer, what="An observation", known=_FIELDS)
        stated = {name: one for name, one in fields.items() if one is not None}
        if "job" not in stated:
            raise InvalidInputError(
                "An observation needs the field 'job'.", pointer=f"{pointer}/job"
            )
        job, stored = self._job(stated["job"], f"{pointer}/job")
        measured = {name: stated[name] for name in _MEASURED if name in stated}
        seen = parse_observation(measured, pointer, job)
        said = {
            name: read(stated[name], f"{pointer}/{name}")
            for name, read in _SAID.items()
            if name in stated
        }
        with _pointing(pointer):
            # However its accelerators were spelled, it is one observation, of one cell.
            seen = named(core, seen, "")
            if job.job_type is not None and not seen.ran_out:
                check_possible(seen, "")
        return _Read(pointer, job, stored, seen, said)

    def _job(self, value: Any, pointer: str) -> tuple[Job, StoredJob]:
        try:
            written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError as error:
            raise InvalidInputError(f"The job cannot be read: {error}.", pointer=pointer) from error
        known = self._jobs.get(written)
        if known is None:
            job = self._dispatcher.models.serving.read_job(value, pointer=pointer)
            known = (job, stored_job(job))
            self._jobs.put(written, known)
        return known


@contextmanager
def _pointing(pointer: str) -> Iterator[None]:
    """Let errors of the estimator, which point into a question, point into one of many items."""
    try:
        yield
    except InvalidInputError as error:
        error.pointer = pointer + error.pointer
        raise


def _judged(
    one: _Read, plausibility: Plausibility, reporter: str, beside: Sequence[Observation]
) -> _Judged:
    """Say how an observation is kept.

    Parameters
    ----------
    beside : sequence of Observation
        Those of its family that came with it, itself among them.
    """
    _, job, stored, seen, said = one
    with _pointing(one.pointer):
        bounds = plausibility.bounds(job, stored, seen, reporter, beside)
    doubt = bounds.doubt_of(seen)
    placement = stored_placement(seen.placement)
    content_hash = _content_hash(stored, seen, placement, said.get("software", ()))
    kept = StoredObservation(
        job=stored,
        content_hash=content_hash,
        placement=placement,
        batch_size=seen.batch_size,
        accumulation_steps=seen.accumulation_steps,
        step_time_s=seen.step_time_s,
        sync_time_s=seen.sync_time_s,
        state=ObservationState.QUARANTINED if doubt else ObservationState.ACCEPTED,
        reason=doubt,
        reporter=reporter,
        **{"key": content_hash, **said},
    )
    return _Judged(kept, bounds)


def _observations_of(body: Any) -> list[Any]:
    """Return the list of observations of a body: the body itself, or its field of that name."""
    if isinstance(body, Mapping):
        refuse_unknown(body, ("observations",), "")
        body = body.get("observations")
    found = as_items("observations", body, "/observations")
    if len(found) > MOST_REPORTS:
        raise InvalidInputError(
            f"At most {MOST_REPORTS} observations at a time; got {len(found)}.",
            pointer="/observations",
        )
    return found


def _content_hash(job: StoredJob, seen: Observation, placement: str, software: _Software) -> str:
    content: list[object] = [
        job.ref, placement, seen.batch_size, seen.accumulation_steps, seen.step_time_s,
        seen.sync_time_s,
    ]  # fmt: skip
    if software:
        content.append(software)
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:32]


def _software(value: Any, pointer: str) -> _Software:
    """Return names and versions of what a step was measured with, sorted."""
    stated = as_object(value, pointer, what="software")
    if len(stated) > MOST_COMPONENTS:
        raise InvalidInputError(
            f"software names at most {MOST_COMPONENTS} components; got {len(stated)}.",
            pointer=pointer,
        )
    for name, version in stated.items():
        for text in (name, as_text(name, version, f"{pointer}/{name}")):
            if not 0 < len(text) <= MOST_OF_A_VERSION or not text.isprintable():
                raise InvalidInputError(
                    f"Names and versions of software have 1 to {MOST_OF_A_VERSION} printable "
                    f"characters; got {shown(text)}.",
                    pointer=pointer,
                )
    return tuple(sorted(stated.items()))


def _expires_in_s(value: Any, pointer: str) -> float:
    seconds = as_number("expires_in_s", value, pointer)
    if not 0 < seconds <= MOST_EXPIRES_IN_S:
        raise InvalidInputError(
            f"expires_in_s is above 0 and at most {MOST_EXPIRES_IN_S:g} seconds; got "
            f"{shown(value)}. Leave it out for an observation that is to count for good.",
            pointer=pointer,
        )
    return seconds


def _key(value: Any, pointer: str) -> str:
    key = as_text("key", value, pointer)
    if len(key) > MOST_OF_A_KEY or not key.isprintable():
        raise InvalidInputError(
            f"key has at most {MOST_OF_A_KEY} printable characters; got {shown(key)}.",
            pointer=pointer,
        )
    return key


#: What reads the fields that are kept as they are stated.
_SAID: Mapping[str, Callable[[Any, str], Any]] = {
    "software": _software,
    "key": _key,
    "expires_in_s": _expires_in_s,
}


def _item(one: _Judged, outcome: Outcome) -> dict[str, Any]:
    key, doubt, ref = one.stored.key, one.stored.reason, one.stored.job.ref
    if outcome is Outcome.CONFLICT:
        conflict = InvalidInputError(
            f"The key {key!r} belongs to another observation of this job, which stands. Give "
            "each observation a key of its own."
        )
        return {**_refused(problem_of(conflict)), "job": ref, "key": key, "reason": doubt}
    status = "quarantined" if doubt else "accepted"
    if outcome is Outcome.KNOWN:
        status = "known"
    return {"status": status, "job": ref, "key": key, "reason": doubt, "problem": None}


def _refused(problem: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": "refused", "job": None, "key": None, "reason": None, "problem": problem}
