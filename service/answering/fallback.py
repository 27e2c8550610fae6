"""What is answered where the full answer does not come in time: the analytical model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from perfmodel.estimator import Estimator, Table
from perfmodel.estimator.explain.explain import Explanation
from perfmodel.estimator.tables.curve import Curve
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from service.answering.answerer import Answerer
from service.answering.matrix_rows import join_rows, ready_rows
from service.answering.question_cache import JobCache
from service.answering.questions import AskedMatrix
from service.state.state import AnyState, InMemoryState

T = TypeVar("T", bound=Estimate | Curve | Ranking | PlanRanking | Explanation | Table)


class Fallback:
    """Answers at once by the arithmetic of a captured step, and says so.

    Nothing is captured, no trained model is asked, and no step that was observed counts; a job
    type, which is known by observed steps alone, is answered from those in memory.
    """

    def __init__(self, estimator: Estimator, state: AnyState, jobs: JobCache) -> None:
        in_memory = InMemoryState(state)
        self._answerer = Answerer(estimator.non_blocking(predicting=True), in_memory, jobs)

    def predict(self, question: Any, why: str) -> Estimate:
        """Answer one question; as :meth:`answer`."""
        return self.answer(
            lambda answerer, plain: answerer.from_model(plain) or answerer.predict(plain),
            question,
            why,
        )

    def answer(self, full: Callable[[Answerer, Any], T], question: Any, why: str) -> T:
        """Answer a question.

        Parameters
        ----------
        full : callable
            Has an answerer answer it.
        why : str
            Why this is not the full answer, for its warnings.

        Raises
        ------
        NotInTimeError
            The step of the job is not captured yet.
        """
        return _warned(full(self._answerer, self._unobserved(question)), why)

    def matrix(self, asked: AskedMatrix, answerer: Answerer | None, why: str) -> Table:
        """Answer every pair: rows that an answerer has in memory in full, others analytically.

        Parameters
        ----------
        answerer : Answerer or None
            None answers every row analytically.
        """
        view = answerer.non_blocking() if answerer else None
        ready = ready_rows(view, asked) if view else []
        others = sorted(set(range(len(asked.jobs))).difference(ready))
        parts: list[tuple[Sequence[int], Table]] = []
        if view and ready:
            parts.append((ready, view.matrix(asked.rows(ready))))
        if others:
            rows = self._answerer.matrix(self._unobserved_rows(asked.rows(others)))
            said = f"{why} So it is with {_rows(others)} of {len(asked.jobs)} jobs."
            parts.append((others, _warned(rows, said)))
        return join_rows(parts)

    def _unobserved(self, question: Any) -> Any:
        """Return a question without the steps that were observed of its job."""
        if not isinstance(question, dict) or not question.get("observations"):
            return question
        if self._is_of_a_type(question.get("job")):
            return question
        return {name: value for name, value in question.items() if name != "observations"}

    def _unobserved_rows(self, asked: AskedMatrix) -> AskedMatrix:
        kept = {r: o for r, o in asked.observations.items() if self._is_of_a_type(asked.jobs[r])}
        return replace(asked, observations=kept)

    def _is_of_a_type(self, written: Any) -> bool:
        job = self._answerer.job_written(written)
        return isinstance(job, Mapping) and job.get("job_type") is not None


def _warned(answer: T, why: str) -> T:
    warned = replace(answer, warnings=(why, *answer.warnings))
    if isinstance(warned, Explanation):
        return replace(warned, estimate=_warned(warned.estimate, why))
    return warned


def _rows(positions: Sequence[int]) -> str:
    listed = ", ".join(map(str, positions[:20]))
    return f"{len(positions)} ({listed}{', ...' if len(positions) > 20 else ''})"
