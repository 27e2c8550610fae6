"""What was said of registered graphs, stated anew: here, and followed by every process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfmodel.errors import InvalidInputError, TakenNameError
from perfmodel.store.state.graph_list import REVISION, GraphList, RegisteredGraph
from service.http.errors import NotYoursError
from service.state.state import State


class GraphCorrections:
    """Corrects how registered graphs were captured; the graphs themselves never change.

    When a method returns, every later answer of this process is as if it had always been so; other
    processes follow at their next look at the counters of changes.

    Parameters
    ----------
    forget : callable
        Lets all who answer here read registered graphs again.
    """

    def __init__(self, state: State, forget: Callable[[], object]) -> None:
        self._list = GraphList(state.database.connections)
        self._forget = forget
        state.watch.on_change(REVISION, forget)

    def correct(
        self, graph_hash: str, facts: dict[str, Any], *, caller: str, is_administrator: bool
    ) -> bool:
        """State facts of a graph anew; False where it is not registered, for all that they know.

        Parameters
        ----------
        facts : dict
            What of ``mode``, ``batch_size`` and ``tokens_per_sample`` is to be others.

        Raises
        ------
        NotYoursError
            Another key registered it before.
        InvalidInputError
            Nothing is stated.
        """
        if not facts:
            raise InvalidInputError(
                "Say what is to be corrected: mode, batch_size or tokens_per_sample, as in "
                "PATCH /v1/graphs/{graph}?mode=training.",
                pointer="/query",
            )
        found = self._list.find(graph_hash)
        if found is None or not (is_administrator or self._list.is_of(graph_hash, caller)):
            return False
        if not is_administrator and found.owner != caller:
            raise NotYoursError(
                "Another key registered this graph before; it or an administrator can correct it."
            )
        corrected = self._list.correct(graph_hash, facts)
        self._forget()
        return corrected


def refuse_others(found: RegisteredGraph, facts: dict[str, Any]) -> None:
    """Refuse to register a graph as something else than it was registered as.

    Raises
    ------
    TakenNameError
        With how to correct it.
    """
    for name, stated in facts.items():
        kept = getattr(found, name)
        if stated is not None and stated != kept:
            raise TakenNameError(
                f"This graph was registered before with {name} {kept}, not {stated}. Correct that "
                f"with PATCH /v1/graphs/{found.graph_hash}?{name}={stated}, or leave it out.",
                pointer=f"/query/{name}",
            )
