"""Where explanations are asked for."""

from __future__ import annotations

from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.explain import explain_answer
from perfmodel.estimator.explanation import Explanation
from perfmodel.graph.json_values import as_count
from perfmodel.requests import parse_query
from service.desk import Desk, read_json
from service.observed_jobs import ObservedJobs

#: Groups of equal operators of an answer, unless a question says otherwise; and at most.
_OPERATORS, _MOST_OPERATORS = 50, 1_000


class ExplainDesk:
    """Explains answers.

    Parameters
    ----------
    desk : Desk
        Its threads do the work, and its state knows what was observed.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._observed_jobs = ObservedJobs(desk.estimator, desk.state)

    async def explain(self, body: bytes) -> Explanation:
        """Explain one answer.

        Parameters
        ----------
        body : bytes
            JSON as for a prediction, and ``most``.

        Raises
        ------
        PerfModelError
            What is wrong with it.
        """
        return await self._desk.in_thread(self._explain, read_json(body))

    def _explain(self, question: Any) -> Explanation:
        plain, most = _read_most(question)
        query = parse_query(self._desk.resolved(plain))
        estimator = self._desk.estimator
        prepared = estimator.prepare(query.job)
        placement = estimator.resolve(query.placement)
        if query.observations:
            seen = (*query.observations, *self._desk.state.observations_of(query.job))
            observed = estimator.observed(prepared, seen)
        else:
            observed = self._observed_jobs.of(prepared)
        return explain_answer(estimator, prepared, placement, observed, most=most)


def _read_most(question: Any) -> tuple[Any, int]:
    if not isinstance(question, dict):
        return question, _OPERATORS
    plain = {name: value for name, value in question.items() if name != "most"}
    most = question.get("most")
    count = _OPERATORS if most is None else as_count("most", most, "/most")
    if count > _MOST_OPERATORS:
        raise InvalidInputError(
            f"most is how many groups of equal operators are answered, from 1 to "
            f"{_MOST_OPERATORS}; got {count}.",
            pointer="/most",
        )
    return plain, count
