"""Take observations in: read, judge, and on disk before they are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import InvalidInputError, MissingExtraError, PerfModelError
from perfmodel.store.state.observations import ObservationState, Outcome, StoredObservation
from service.dispatch.dispatcher import Dispatcher
from service.http.errors import problem_of
from service.observations.plausibility import Plausibility
from service.observations.prediction_error import count_observation
from service.observations.reader import ObservationReader, SentObservation, read_list

#: Errors that are of one observation; any other is of the service, and of the whole request.
_OF_ONE = (InvalidInputError, MissingExtraError)


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenObservations:
    """What became of the observations of a request.

    Parameters
    ----------
    sent : tuple of SentObservation or PerfModelError
        Each as it was read, or why it was refused.
    doubts : tuple of str or None
        Why each is quarantined.
    outcomes : tuple of Outcome or None
        What became of each on disk.
    """

    sent: tuple[SentObservation | PerfModelError, ...]
    doubts: tuple[str | None, ...]
    outcomes: tuple[Outcome | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return them as an answer."""
        items = [_item(*each) for each in zip(self.sent, self.doubts, self.outcomes, strict=True)]
        words = [item["status"] for item in items]
        return {
            **{word: words.count(word) for word in STATUSES},
            "observations": items,
        }


#: What an observation of an answer may be.
STATUSES = ("accepted", "quarantined", "known", "refused")


class ObservationIntake:
    """Takes observations in."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._state = state = dispatcher.state
        self._depth = dispatcher.metrics.queue("observations")
        self._reader = ObservationReader(state.references)
        self._plausibility = Plausibility(dispatcher.estimator)

    async def take(self, body: Any) -> TakenObservations:
        """Keep the observations of a request; when this returns they are on disk.

        Raises
        ------
        InvalidInputError
            There is no list, or nothing in it can be read.
        StoreError
            The database cannot be written: nothing of the request is acknowledged.
        """
        sent, doubts = await self._dispatcher.in_thread(self._read, read_list(body))
        kept = [
            _stored(seen, doubt)
            for seen, doubt in zip(sent, doubts, strict=True)
            if isinstance(seen, SentObservation)
        ]
        outcomes_kept = await self._on_disk(kept)
        written = iter(outcomes_kept)
        self._state.feed.forget({seen.job.family for seen in kept})
        outcomes = [next(written) if isinstance(seen, SentObservation) else None for seen in sent]
        self._count(sent, doubts, outcomes)
        return TakenObservations(sent=tuple(sent), doubts=tuple(doubts), outcomes=tuple(outcomes))

    async def _on_disk(self, kept: Sequence[StoredObservation]) -> list[Outcome]:
        self._depth.inc(len(kept))
        try:
            return await asyncio.wrap_future(self._state.writer.submit(kept))
        finally:
            self._depth.dec(len(kept))

    def _count(
        self,
        sent: Sequence[SentObservation | PerfModelError],
        doubts: Sequence[str | None],
        outcomes: Sequence[Outcome | None],
    ) -> None:
        """Hold what was predicted against each observation that is new and believed."""
        judge = self._judge()
        for read, doubt, outcome in zip(sent, doubts, outcomes, strict=True):
            if not isinstance(read, SentObservation) or doubt or outcome is not Outcome.ADDED:
                continue
            predicted = judge.predicted(read.stored.ref, read.seen)
            if predicted is not None:
                catalog = self._dispatcher.estimator.accelerators
                count_observation(self._dispatcher.metrics, catalog, read.seen, *predicted)

    def _judge(self) -> Plausibility:
        """Return what judges by the version of the model that serves, and remembers of it alone."""
        estimator = self._dispatcher.estimator
        if self._plausibility.estimator is not estimator:
            self._plausibility = Plausibility(estimator)
        return self._plausibility

    def _read(
        self, values: Sequence[Any]
    ) -> tuple[list[SentObservation | PerfModelError], list[str | None]]:
        read = [self._attempt(value, f"/observations/{i}") for i, value in enumerate(values)]
        first = read[0][0]
        if isinstance(first, PerfModelError) and not any(
            isinstance(seen, SentObservation) for seen, _ in read
        ):
            raise first
        return [seen for seen, _ in read], [doubt for _, doubt in read]

    def _attempt(
        self, value: Any, pointer: str
    ) -> tuple[SentObservation | PerfModelError, str | None]:
        try:
            sent = self._reader.read(value, pointer)
            try:
                return sent, self._judge().doubt(sent.job, sent.stored.ref, sent.seen)
            except InvalidInputError as error:
                # The estimator points into a question; here job and placement are of one item.
                error.pointer = pointer + error.pointer
                raise
        except _OF_ONE as error:
            return error, None


def _stored(sent: SentObservation, doubt: str | None) -> StoredObservation:
    seen = sent.seen
    return StoredObservation(
        job=sent.stored,
        key=sent.key,
        content_hash=sent.content_hash,
        placement=sent.placement,
        batch_size=seen.batch_size,
        accumulation_steps=seen.accumulation_steps,
        step_time_s=seen.step_time_s,
        sync_time_s=seen.sync_time_s,
        state=ObservationState.QUARANTINED if doubt else ObservationState.ACCEPTED,
        reason=doubt,
    )


def _item(
    sent: SentObservation | PerfModelError, doubt: str | None, outcome: Outcome | None
) -> dict[str, Any]:
    problem: Mapping[str, Any] | None = None
    if isinstance(sent, PerfModelError):
        status, problem = "refused", problem_of(sent)
    elif outcome is Outcome.CONFLICT:
        conflict = InvalidInputError(
            f"The key {sent.key!r} belongs to another observation of this job, which stands. Give "
            "each observation a key of its own."
        )
        status, problem = "refused", problem_of(conflict)
    elif outcome is Outcome.KNOWN:
        status = "known"
    else:
        status = "quarantined" if doubt else "accepted"
    read = sent if isinstance(sent, SentObservation) else None
    return {
        "status": status,
        "job": read.stored.ref if read else None,
        "key": read.key if read else None,
        "reason": doubt,
        "problem": problem,
    }
