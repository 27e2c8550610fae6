"""Where questions are answered: at once from memory, else by threads, by whom and when they say."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

from fastapi import Request

from perfmodel.errors import NotInTimeError, PerfModelError
from perfmodel.estimator import Estimator, Table
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.explain.explain import Explanation
from perfmodel.estimator.kernels.kernel_answers import KernelTable
from perfmodel.estimator.tables.curve import Curve
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from service.answering.answerer import Answerer
from service.answering.lanes import attended_lanes, unattended_lanes
from service.answering.matrix_rows import predict_rows
from service.answering.questions import (
    AskedMatrix,
    Options,
    read_matrix,
    read_placements,
    split_options,
)
from service.answering.thread_pool import ThreadPool
from service.dispatch.background_rounds import BackgroundRounds, Preparation
from service.dispatch.deadlines import Deadlines
from service.dispatch.prefetch import Prefetch
from service.http.bodies import SMALL_BYTES, read_json
from service.http.errors import OverloadedError
from service.http.redaction import without_places
from service.metrics.registry import Metrics
from service.settings import Settings
from service.shadow.shadow import Shadow
from service.state.state import State
from service.versions.folder_watch import ModelWatch
from service.versions.loaded_versions import ANALYTICAL, LoadedVersions
from service.versions.model_source import ModelSource

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Curve | Ranking | PlanRanking | Explanation)

#: Questions of a route that may wait for an analytical answer.
_MOST_FALLBACKS = 64
#: Versions of the model that may wait to be loaded.
_MOST_LOADS = 16

#: So many answers in so many seconds take some percent of a core, and on a busy machine a good part
#: of what the process gets of one.
_MANY, _LATELY_S = 64, 0.2


class LoopAnswers:
    """Notes what the loop answers by itself, for those who work while nobody waits.

    Such answers never stand in a queue that could be looked at, and yet they wait: for the
    interpreter, whenever another thread of the process computes.

    Examples
    --------
    >>> answers = LoopAnswers()
    >>> for _ in range(64):
    ...     answers.note()
    >>> answers.count
    64
    """

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=_MANY)

    def note(self) -> None:
        """Note that one was given now."""
        self._at.append(monotonic())

    @property
    def count(self) -> int:
        """What was answered lately where that is much, else 0; as of those that wait elsewhere."""
        many = len(self._at) == _MANY and monotonic() - self._at[0] < _LATELY_S
        return _MANY if many else 0


class Dispatcher:
    """Takes questions, sees who answers them and by when, and counts the answers.

    A question is the body of a request, JSON; ``waits`` is how many milliseconds its caller waits,
    where the body does not say. What is wrong with a question is raised as a PerfModelError.

    Parameters
    ----------
    estimator : Estimator
        Of the version of the model that serves at first.
    metrics : Metrics or None
        Where answers are counted; None: where nobody looks.
    """

    def __init__(
        self, estimator: Estimator, settings: Settings, metrics: Metrics | None = None
    ) -> None:
        self.metrics = metrics or Metrics()
        self.state = State.beside(estimator, observations_keep_s=settings.observations_keep_s)
        self._settings = settings
        most, most_s = settings.max_waiting, settings.answer_time_s
        self.threads = attended_lanes(
            self.metrics, most=most, most_captures=settings.max_waiting_captures, most_s=most_s
        )
        pool = partial(ThreadPool, metrics=self.metrics, workers=1)
        self._background = pool("background", most=most, most_s=most_s)
        self._later = unattended_lanes(
            self.metrics, self.threads.captures, places=settings.capture_processes, most_s=most_s
        )
        self._fallbacks = pool("fallback", most=_MOST_FALLBACKS, most_s=most_s)
        self.loads = pool("models", most=_MOST_LOADS)
        self.looks = pool("model_store", most=_MOST_LOADS)
        self.source = ModelSource(settings, on_look=self.metrics.model_store)
        self.deadlines = Deadlines(self.threads, BackgroundRounds(self._background, self._later))
        self.loop_answers = LoopAnswers()
        self.models = LoadedVersions(
            estimator,
            self.state,
            self.source.folder,
            most=settings.pinned_models,
            fetch=self.source.fetch,
            on_swap=lambda new: self.metrics.serve_model(new.model_version, new.models),
        )
        self.watch = ModelWatch(
            self.models, self.source, self.loads, self.looks, poll_s=settings.models_poll_s
        )
        self.prefetch = Prefetch(
            lambda: self.models.serving,
            lambda: self.threads.count + self._background.count + self.loop_answers.count,
            self.metrics,
            self.state.prices.all,
        )
        self.models.jobs.on_new = self.prefetch.add
        self.shadow = Shadow(self.source, self.models, self.state, settings)

    @property
    def estimator(self) -> Estimator:
        """The estimator of the version that serves; ask once for everything of one answer."""
        return self.models.serving.estimator

    @property
    def problems(self) -> list[str]:
        """What is wrong with the models that are installed, or with where they come from."""
        return [*self.estimator.problems, *self.source.problems]

    @property
    def ill_health(self) -> list[str]:
        """What is wrong, in words for anybody: with models, or with the database."""
        lost = self.state.watch.problem
        wrong = [*self.problems, *([lost] if lost else [])]
        return [without_places(each) for each in wrong]

    async def predict(
        self,
        body: bytes,
        waits: bytes | None = None,
        *,
        route: str = "/v1/predict",
        answerer: Answerer | None = None,
    ) -> Estimate:
        """Answer one question.

        Parameters
        ----------
        route : str
            Where the answer is counted.
        answerer : Answerer or None
            Who answers where no version is pinned, for questions that come together; None: who
            serves now.
        """
        question, options = split_options(read_json(body), waits)
        if options.pin_model is not None:
            answerer = await self._pinned(options.pin_model, options.left_s)
        elif answerer is None:
            answerer = self.models.serving
        answer = answerer.from_memory(question)
        if answer is not None:
            self.loop_answers.note()
        elif options.until_s is None:
            answer = await self.threads.run(answerer.predict, question)
        else:

            async def instead(why: str) -> Estimate:
                # Here and now: it takes less than handing it to a thread.
                return self.models.fallback.predict(question, why)

            key = (Answerer.predict, answerer, body)
            preparation = Preparation(answerer.predict_steps_of, question)
            full = partial(answerer.predict, question)
            answer = await self._in_time(options, key, full, instead, route, preparation)
        self.metrics.answer(route, answer.basis)
        self.shadow.asked.note(body)
        return answer

    async def matrix(self, body: bytes, waits: bytes | None = None) -> Table:
        """Answer every pair of ``jobs`` and ``placements``."""
        route = "/v1/matrix"
        question, options = split_options(read_json(body), waits)
        answerer = self.models.serving
        if options.pin_model is not None:
            answerer = await self._pinned(options.pin_model, options.left_s)
        read = partial(read_matrix, question, max_cells=self._settings.max_cells)
        # A large one may hold as many observations as take seconds to sort by their jobs.
        asked = read() if len(body) <= SMALL_BYTES else await asyncio.to_thread(read)
        # Only what may be interrupted is answered row by row: it takes a little longer.
        action = answerer.matrix if options.until_s is None else partial(_matrix_by_rows, answerer)
        ready = answerer if options.pin_model is None else None

        async def instead(why: str) -> Table:
            return await self._fallbacks.run(self.models.fallback.matrix, asked, ready, why)

        key = (Answerer.matrix, answerer, body)
        answer = await self._in_time(options, key, partial(action, asked), instead, route)
        self.metrics.table(route, answer.basis)
        self.shadow.asked.note(body)
        return answer

    async def curve(self, body: bytes, waits: bytes | None = None) -> Curve:
        """Answer one job over the number of accelerators."""
        answer = await self._ask(body, waits, Answerer.curve, "/v1/curve")
        self.metrics.answers("/v1/curve", answer.basis)
        return answer

    async def rank(self, body: bytes, waits: bytes | None = None) -> Ranking | PlanRanking:
        """Rank placements of one job, or search the plans of one placement."""
        answer = await self._ask(body, waits, Answerer.rank, "/v1/rank")
        if isinstance(answer, Ranking):
            ranked = (*answer.best, *answer.left_out)
            self.metrics.answers("/v1/rank", (one.estimate.basis for one in ranked))
        return answer

    async def explain(self, body: bytes, waits: bytes | None = None) -> Explanation:
        """Explain the answer to a question as for :meth:`predict`."""
        answer = await self._ask(body, waits, Answerer.explain, "/v1/explain")
        self.metrics.answer("/v1/explain", answer.estimate.basis)
        return answer

    async def placements(self, body: bytes) -> list[ResolvedPlacement | PerfModelError]:
        """Look placements up, in the catalogue of the version that serves."""
        asked = read_placements(read_json(body))
        return await self.threads.run(self.models.serving.placements, asked)

    async def kernels(self, body: bytes) -> KernelTable:
        """Answer how long kernels take; the version that serves is asked, at no deadline."""
        question = read_json(body)
        answer = await self.threads.run(self.models.serving.kernels, question)
        self.metrics.answers("/v1/kernels", (one.basis for one in answer.answers))
        return answer

    def close(self) -> None:
        """Let the threads end."""
        self.prefetch.close()
        self.shadow.close()
        later = (self._background, self._later)
        for threads in (self.threads, *later, self._fallbacks, self.loads, self.looks):
            threads.close()
        self.state.close()

    async def _ask(
        self,
        body: bytes,
        waits: bytes | None,
        full: Callable[[Answerer, Any], Answer],
        route: str,
    ) -> Answer:
        """Answer a question in a thread, with the options that came with it."""
        question, options = split_options(read_json(body), waits)
        answerer = self.models.serving
        if options.pin_model is not None:
            answerer = await self._pinned(options.pin_model, options.left_s)

        async def instead(why: str) -> Answer:
            return await self._fallbacks.run(self.models.fallback.answer, full, question, why)

        key = (full, answerer, body)
        action = partial(full, answerer, question)
        answer = await self._in_time(options, key, action, instead, route)
        self.shadow.asked.note(body)
        return answer

    async def _in_time(
        self,
        options: Options,
        key: Any,
        full: Callable[[], T],
        instead: Callable[[str], Awaitable[T]],
        route: str,
        preparation: Preparation | None = None,
    ) -> T:
        """Return the full answer, or another where that does not come and another will do.

        Raises
        ------
        NotInTimeError
            None came, and not even the arithmetic of the job is known.
        OverloadedError
            As many questions as may wait already do, and nothing is known of the job.
        """
        if options.until_s is None:
            return await self.threads.run(full)
        try:
            return await self.deadlines.wait(options, key, full, preparation)
        except (NotInTimeError, OverloadedError) as error:
            pinned = options.pin_model
            if not (options.allow_fallback if pinned is None else pinned in ANALYTICAL):
                raise
            overload = isinstance(error, OverloadedError)
            try:
                answer = await instead(_why(options, overload=overload))
            except NotInTimeError:
                if overload:
                    raise error from None
                raise
        self.metrics.fallback(route, "overload" if overload else "deadline")
        return answer

    async def _pinned(self, version: str, left_s: float | None) -> Answerer:
        """Return who answers with the one version that may.

        Raises
        ------
        InvalidInputError
            It is not there, or cannot answer.
        NotInTimeError
            It is not loaded by the deadline.
        """
        answerer = self.models.in_memory(version)
        if answerer is None:
            loading = asyncio.wrap_future(self.loads.submit(self.models.load, version))
            loading.add_done_callback(lambda done: done.cancelled() or done.exception())
            done, _ = await asyncio.wait({loading}, timeout=left_s)
            if not done:
                raise NotInTimeError(
                    f"The version {version!r} is being loaded, and no other may answer. Ask again, "
                    "or wait longer."
                )
            answerer = loading.result()
        self._note_pin(version)
        return answerer

    def _note_pin(self, version: str) -> None:
        name, _, number = version.partition("/")
        if version in ANALYTICAL or self.source.registry.pins.is_noted(name, number):
            return
        # Where as many wait as may, the next question that pins it notes it.
        with suppress(OverloadedError):
            self.looks.submit(self.source.note_pin, version)


def dispatcher_of(request: Request) -> Dispatcher:
    """Return the dispatcher of the app that got a request."""
    return cast(Dispatcher, request.app.state.dispatcher)


def _why(options: Options, *, overload: bool) -> str:
    if overload:
        return (
            "Too many questions wait for the trained model: the analytical model answers, without "
            "what was observed of jobs that have a model. Ask again later."
        )
    return (
        f"The full answer did not come within deadline_ms={options.deadline_ms:g}: the analytical "
        "model answers, without what was observed of jobs that have a model. The full one is being "
        "worked on; ask again."
    )


def _matrix_by_rows(answerer: Answerer, asked: AskedMatrix) -> Table:
    predict_rows(answerer, asked)
    return answerer.matrix(asked)
