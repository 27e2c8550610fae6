"""Where explanations are asked for."""

from __future__ import annotations

from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.explain.explanation import Explanation
from perfmodel.graph.json_values import as_count
from service.answering.clerk import Clerk
from service.answering.fallback import Fallback
from service.desk import Desk

#: Where answers are counted.
ROUTE = "/v1/explain"

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

    async def explain(self, body: bytes, waits: bytes | None = None) -> Explanation:
        """Explain one answer.

        Parameters
        ----------
        body : bytes
            JSON as for a prediction, and ``most``.
        waits : bytes or None
            Milliseconds that the caller waits, where the body does not say.

        Raises
        ------
        PerfModelError
            What is wrong with it.
        """
        answer = await self._desk.ask(body, waits, _explain, _explain_now, ROUTE)
        self._desk.metrics.answer(ROUTE, answer.estimate.basis)
        return answer


def _explain(clerk: Clerk, question: Any) -> Explanation:
    plain, most = _read_most(question)
    return clerk.explain(plain, most=most)


def _explain_now(fallback: Fallback, question: Any, why: str) -> Explanation:
    plain, most = _read_most(question)
    return fallback.explain(plain, why, most=most)


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
