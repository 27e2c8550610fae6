"""What is answered where the full answer does not come in time: the analytical model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfmodel.estimator import Estimator, MatrixEstimate, PreparedJob
from perfmodel.estimator.explain.explanation import Explanation
from perfmodel.estimator.tables.curve import Curve
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.lru import LruCache
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from service.answering.clerk import Clerk
from service.answering.known import Key
from service.answering.matrix_question import AskedMatrix
from service.answering.remembered import InMemory, Remembered
from service.answering.rows import join_rows, ready_rows


class Fallback:
    """Answers at once by the arithmetic of a captured step, and says so.

    Nothing is captured, no trained model is asked, and no step that was observed counts; a job
    type, which is known by observed steps alone, is answered from those in memory.

    Parameters
    ----------
    estimator : Estimator
        Of the analytical model.
    jobs : LruCache
        As for :class:`Clerk`.
    """

    def __init__(
        self, estimator: Estimator, state: Remembered, jobs: LruCache[Key, PreparedJob]
    ) -> None:
        in_memory = InMemory(state, of_types_alone=True)
        self._clerk = Clerk(estimator.at_hand(predicting=True), in_memory, jobs)

    def predict(self, question: Any, why: str) -> Estimate:
        """Answer one question.

        Parameters
        ----------
        why : str
            Why this is not the full answer, for its warnings.

        Raises
        ------
        NotInTimeError
            The step of the job is not captured yet.
        """
        plain = self._unobserved(question)
        answer = self._clerk.from_model(plain) or self._clerk.predict(plain)
        return replace(answer, warnings=(why, *answer.warnings))

    def curve(self, question: Any, why: str) -> Curve:
        """Answer one job over the number of accelerators; as :meth:`predict`."""
        answer = self._clerk.curve(self._unobserved(question))
        return replace(answer, warnings=(why, *answer.warnings))

    def explain(self, question: Any, why: str, *, most: int) -> Explanation:
        """Explain the answer that :meth:`predict` would give."""
        answer = self._clerk.explain(self._unobserved(question), most=most)
        warnings = (why, *answer.estimate.warnings)
        estimate = replace(answer.estimate, warnings=warnings)
        return replace(answer, estimate=estimate, warnings=(why, *answer.warnings))

    def rank(self, question: Any, why: str) -> Ranking | PlanRanking:
        """Rank placements or plans; as :meth:`predict`."""
        answer = self._clerk.rank(self._unobserved(question))
        return replace(answer, warnings=(why, *answer.warnings))

    def matrix(self, asked: AskedMatrix, clerk: Clerk | None, why: str) -> MatrixEstimate:
        """Answer every pair: the rows that a clerk has in memory in full, the others analytically.

        Parameters
        ----------
        clerk : Clerk or None
            None answers every row analytically.
        """
        view = clerk.at_hand() if clerk else None
        ready = ready_rows(view, asked) if view else []
        others = sorted(set(range(len(asked.jobs))).difference(ready))
        parts: list[tuple[Sequence[int], MatrixEstimate]] = []
        if view and ready:
            parts.append((ready, view.matrix(asked.rows(ready))))
        if others:
            rows = self._clerk.matrix(self._unobserved_rows(asked.rows(others)))
            said = f"{why} So it is with {_rows(others)} of {len(asked.jobs)} jobs."
            parts.append((others, replace(rows, warnings=(said, *rows.warnings))))
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
        job = self._clerk.resolved({"job": written})["job"]
        return isinstance(job, Mapping) and job.get("job_type") is not None


def _rows(positions: Sequence[int]) -> str:
    listed = ", ".join(map(str, positions[:20]))
    return f"{len(positions)} ({listed}{', ...' if len(positions) > 20 else ''})"
