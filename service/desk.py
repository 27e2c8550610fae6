"""Where questions are answered: at once from memory, else by threads, on the caller's terms."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from perfmodel.errors import NotInTimeError
from perfmodel.estimator import Estimator, MatrixEstimate
from perfmodel.estimator.tables.curve import Curve
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from service.answering.clerk import Clerk
from service.answering.fallback import Fallback
from service.answering.foresight import Foresight
from service.answering.json_body import read_json
from service.answering.later import Together
from service.answering.matrix_question import AskedMatrix, read_matrix
from service.answering.patience import Patience
from service.answering.rows import predict_rows
from service.answering.terms import ANY_TERMS, Terms, split_terms
from service.answering.threads import AnswerThreads
from service.errors import OverloadedError
from service.metrics.registry import Metrics
from service.settings import Settings
from service.state import State
from service.versions.folder import ModelFolder
from service.versions.shelf import ModelShelf
from service.versions.watch import ModelWatch

__all__ = ["Desk", "read_json"]

T = TypeVar("T")

#: Questions of a route that may wait for an analytical answer.
_MOST_FALLBACKS = 64
#: Versions of the model that may wait to be loaded.
_MOST_LOADS = 16


class Desk:
    """Takes questions, sees who answers them and by when, and counts the answers.

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
        self.state = State.beside(estimator)
        self._settings = settings
        most = settings.max_waiting
        self.threads = AnswerThreads("answer", self.metrics, workers=4, most=most)
        self._background = AnswerThreads("background", self.metrics, workers=1, most=most)
        self._hurried = AnswerThreads("fallback", self.metrics, workers=1, most=_MOST_FALLBACKS)
        self.loads = AnswerThreads("models", self.metrics, workers=1, most=_MOST_LOADS)
        self.patience = Patience(self.threads, self._background)
        folder = ModelFolder(settings.models)
        self.models = ModelShelf(
            estimator,
            self.state,
            settings.models,
            most=settings.pinned_models,
            on_swap=lambda new: self.metrics.serve_model(new.model_version, new.models),
        )
        self.watch = ModelWatch(self.models, folder, self.loads, poll_s=settings.models_poll_s)
        self.foresight = Foresight(
            lambda: self.models.serving,
            (self.threads, self._background),
            self.metrics,
            self.state.prices.all,
        )
        self.models.jobs.on_new = self.foresight.add

    @property
    def estimator(self) -> Estimator:
        """The estimator of the version that serves; ask once for everything of one answer."""
        return self.models.serving.estimator

    async def predict(
        self,
        body: bytes,
        waits: bytes | None = None,
        *,
        route: str = "/v1/predict",
        clerk: Clerk | None = None,
    ) -> Estimate:
        """Answer one question.

        Parameters
        ----------
        body : bytes
            JSON with ``job`` and ``placement``.
        waits : bytes or None
            Milliseconds that the caller waits, where the body does not say.
        route : str
            Where the answer is counted.
        clerk : Clerk or None
            Who answers where no version is pinned, for questions that come together; None: who
            serves now.

        Raises
        ------
        PerfModelError
            What is wrong with it.
        """
        question, terms = split_terms(read_json(body), waits)
        if terms.pin_model is not None or clerk is None:
            clerk = self.models.serving if terms is ANY_TERMS else await self._clerk(terms)
        answer = clerk.from_memory(question)
        if answer is None:
            full = partial(clerk.predict, question)

            async def instead(why: str) -> Estimate:
                # Here and now: it takes less than handing it to a thread.
                return self.models.fallback.predict(question, why)

            key = (Clerk.predict, clerk, body)
            together = Together(clerk.predict_steps, question)
            answer = await self._in_time(terms, key, full, instead, route, together)
        self.metrics.answer(route, answer.basis)
        return answer

    async def matrix(self, body: bytes, waits: bytes | None = None) -> MatrixEstimate:
        """Answer every pair of ``jobs`` and ``placements``."""
        route = "/v1/matrix"
        question, terms = split_terms(read_json(body), waits)
        clerk = await self._clerk(terms)
        asked = read_matrix(question, max_cells=self._settings.max_cells)
        # Only what may be interrupted is answered row by row: it takes a little longer.
        action = clerk.matrix if terms.until_s is None else partial(_matrix_by_rows, clerk)
        ready = clerk if terms.pin_model is None else None

        async def instead(why: str) -> MatrixEstimate:
            return await self._hurried.run(self.models.fallback.matrix, asked, ready, why)

        key = (Clerk.matrix, clerk, body)
        answer = await self._in_time(terms, key, partial(action, asked), instead, route)
        self.metrics.table(route, answer.basis)
        return answer

    async def curve(self, body: bytes, waits: bytes | None = None) -> Curve:
        """Answer one job over the number of accelerators."""
        answer = await self.ask(body, waits, Clerk.curve, Fallback.curve, "/v1/curve")
        self.metrics.answers("/v1/curve", answer.basis)
        return answer

    async def rank(self, body: bytes, waits: bytes | None = None) -> Ranking | PlanRanking:
        """Rank placements of one job, or search the plans of one placement."""
        answer = await self.ask(body, waits, Clerk.rank, Fallback.rank, "/v1/rank")
        if isinstance(answer, Ranking):
            ranked = (*answer.best, *answer.left_out)
            self.metrics.answers("/v1/rank", (one.estimate.basis for one in ranked))
        return answer

    async def ask(
        self,
        body: bytes,
        waits: bytes | None,
        full: Callable[[Clerk, Any], T],
        instead: Callable[[Fallback, Any, str], T],
        route: str,
    ) -> T:
        """Answer a question in a thread, on the terms that came with it.

        Parameters
        ----------
        waits : bytes or None
            As for :meth:`predict`.
        full : callable
            Has a clerk answer the question.
        instead : callable
            Answers it at once, with a reason, where the full answer does not come in time.
        route : str
            Where that is counted.
        """
        question, terms = split_terms(read_json(body), waits)
        clerk = await self._clerk(terms)

        async def hurried(why: str) -> T:
            return await self._hurried.run(instead, self.models.fallback, question, why)

        key = (full, clerk, body)
        return await self._in_time(terms, key, partial(full, clerk, question), hurried, route)

    async def in_thread(self, action: Callable[..., T], *args: Any) -> T:
        """Run something that takes long in a thread.

        Raises
        ------
        OverloadedError
            As many as may wait already do.
        """
        return await self.threads.run(action, *args)

    def resolved(self, question: Any) -> Any:
        """Return a question with its job in place of a reference to it; see :class:`Clerk`."""
        return self.models.serving.resolved(question)

    def close(self) -> None:
        """Let the threads end."""
        self.foresight.close()
        for threads in (self.threads, self._background, self._hurried, self.loads):
            threads.close()
        self.state.close()

    async def _in_time(
        self,
        terms: Terms,
        key: Any,
        full: Callable[[], T],
        instead: Callable[[str], Awaitable[T]],
        route: str,
        together: Together | None = None,
    ) -> T:
        """Return the full answer, or another where that does not come and another will do.

        Raises
        ------
        NotInTimeError
            None came, and not even the arithmetic of the job is known.
        OverloadedError
            As many questions as may wait already do, and nothing is known of the job.
        """
        try:
            return await self.patience.wait(terms, key, full, together)
        except (NotInTimeError, OverloadedError) as error:
            if terms.until_s is None or not terms.may_fall_back:
                raise
            overload = isinstance(error, OverloadedError)
            try:
                answer = await instead(_why(terms, overload=overload))
            except NotInTimeError:
                if overload:
                    raise error from None
                raise
        self.metrics.fallback(route, "overload" if overload else "deadline")
        return answer

    async def _clerk(self, terms: Terms) -> Clerk:
        """Return who answers.

        Raises
        ------
        InvalidInputError
            A pinned version that is not there, or cannot answer.
        NotInTimeError
            It is not loaded by the deadline.
        """
        if terms.pin_model is None:
            return self.models.serving
        clerk = self.models.in_memory(terms.pin_model)
        if clerk is not None:
            return clerk
        loading = asyncio.wrap_future(self.loads.submit(self.models.load, terms.pin_model))
        loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({loading}, timeout=terms.left_s)
        if not done:
            raise NotInTimeError(
                f"The version {terms.pin_model!r} is being loaded, and no other may answer. Ask "
                "again, or wait longer."
            )
        return loading.result()


def _why(terms: Terms, *, overload: bool) -> str:
    if overload:
        return (
            "Too many questions wait for the trained model: the analytical model answers, without "
            "what was observed. Ask again later."
        )
    return (
        f"The full answer did not come within deadline_ms={terms.deadline_ms:g}: the analytical "
        "model answers, without what was observed. The full one is being worked on; ask again."
    )


def _matrix_by_rows(clerk: Clerk, asked: AskedMatrix) -> MatrixEstimate:
    predict_rows(clerk, asked)
    return clerk.matrix(asked)
