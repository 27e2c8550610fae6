"""Take observations in: read, judge, and on disk before they are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from perfmodel.errors import InvalidInputError, MissingExtraError, PerfModelError
from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.state.observations import ObservationState, Outcome, StoredObservation
from service.dispatch.dispatcher import Dispatcher
from service.http.errors import problem_of
from service.observations.plausibility import Bounds, Plausibility, kind_of
from service.observations.reader import ObservationReader, read_list

#: Errors that are of one observation; any other is of the service, and of the whole request.
_OF_ONE = (InvalidInputError, MissingExtraError)

#: What an observation of an answer may be.
_STATUSES = ("accepted", "quarantined", "known", "refused")


class _Judged(NamedTuple):
    """An observation as it was sent and as it is kept, and what its step time may be."""

    seen: Observation
    stored: StoredObservation
    bounds: Bounds


class ObservationIntake:
    """Takes observations in."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._state = state = dispatcher.state
        self._depth = dispatcher.metrics.queue("observations")
        self._reader = ObservationReader(state.references)
        self._plausibility = Plausibility(dispatcher.estimator)

    async def take(self, body: Any) -> dict[str, Any]:
        """Keep the observations of a request; when this returns they are on disk.

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
        judged = await self._dispatcher.threads.run(self._read, read_list(body))
        kept = [one for one in judged if isinstance(one, _Judged)]
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
        catalog = self._dispatcher.estimator.accelerators
        for (seen, stored, bounds), outcome in zip(kept, outcomes, strict=True):
            predicted = bounds.predicted
            if predicted is None or stored.reason or outcome is not Outcome.ADDED:
                continue
            self._dispatcher.metrics.observation(
                kind_of(seen.placement, catalog),
                predicted.samples_per_second * bounds.predicted_step_s / seen.step_time_s,
                predicted=predicted.samples_per_second,
                low=predicted.low,
                high=predicted.high,
            )

    def _read(self, values: Sequence[Any]) -> list[_Judged | PerfModelError]:
        estimator = self._dispatcher.estimator
        if self._plausibility.estimator is not estimator:
            # It remembers what one version of the model says.
            self._plausibility = Plausibility(estimator)
        plausibility = self._plausibility
        read = [
            self._judge(value, f"/observations/{i}", plausibility) for i, value in enumerate(values)
        ]
        if isinstance(read[0], PerfModelError) and not any(isinstance(r, _Judged) for r in read):
            raise read[0]
        return read

    def _judge(
        self, value: Any, pointer: str, plausibility: Plausibility
    ) -> _Judged | PerfModelError:
        try:
            job, seen, stored = self._reader.read(value, pointer)
            try:
                bounds = plausibility.bounds(job, stored.job.ref, seen)
            except InvalidInputError as error:
                # The estimator points into a question; here job and placement are of one item.
                error.pointer = pointer + error.pointer
                raise
        except _OF_ONE as error:
            return error
        doubt = bounds.doubt_of(seen.step_time_s)
        if doubt is not None:
            stored = replace(stored, state=ObservationState.QUARANTINED, reason=doubt)
        return _Judged(seen, stored, bounds)


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
