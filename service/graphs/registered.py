"""Registered graphs as they are listed and shown."""

from __future__ import annotations

from typing import Any

import orjson

from perfmodel.graph.canonical import from_json
from perfmodel.graph.cost import cost_table
from perfmodel.graph.ir import Graph
from perfmodel.store.sql.shared_store import Page
from perfmodel.store.state.database import Database
from perfmodel.store.state.graph_list import GraphFacts, GraphList, RegisteredGraph


class RegisteredGraphs:
    """Finds graphs; what there is to say of one is worked out once, for all hosts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._list = GraphList(database.connections)

    def find(self, graph_hash: str) -> RegisteredGraph | None:
        """Return how a graph was registered, or None."""
        return self._list.find(graph_hash)

    def note(self, graph: Graph) -> None:
        """Keep what there is to say of a graph that was registered."""
        self._list.keep_facts(graph.content_hash, _facts(graph))

    def keep_owner(self, graph_hash: str, owner: str) -> None:
        """Keep that a graph is that of a key, as well as of those that registered it before."""
        self._list.keep_owner(graph_hash, owner)

    def page(self, *, owner: str | None, cursor: str | None, limit: int) -> Page[dict[str, Any]]:
        """Return some registered graphs, newest first: those that a key registered, or all."""
        page = self._list.page(owner=owner, cursor=cursor, limit=limit)
        return Page(
            items=tuple(_entry(found, self._facts_of(found)) for found in page.items),
            next_cursor=page.next_cursor,
        )

    def show(self, graph_hash: str, owner: str | None = None) -> dict[str, Any] | None:
        """Return what there is to say of a graph; None where :meth:`canonical` has none."""
        canonical = self.canonical(graph_hash, owner)
        if canonical is None:
            return None
        graph = from_json(canonical)
        registered = self._list.find(graph_hash) or RegisteredGraph(
            graph_hash=graph_hash,
            mode=graph.source.get("mode", ""),
            batch_size=0,
            tokens_per_sample=None,
            facts=None,
            created_at="",
        )
        unpriced = dict(sorted(cost_table(graph).unpriced.items()))
        return {**_entry(registered, _facts(graph)), "unpriced_operators": unpriced}

    def canonical(self, graph_hash: str, owner: str | None = None) -> bytes | None:
        """Return a whole graph as canonical JSON; None where it is not there, or not shown.

        Parameters
        ----------
        owner : str or None
            The key that is shown what it registered; None is shown all, captured graphs too.
        """
        if owner is not None and not self._list.is_of(graph_hash, owner):
            return None
        return self._database.graph(graph_hash)

    def _facts_of(self, found: RegisteredGraph) -> GraphFacts | None:
        """Return the facts of a registered graph; those of an old one are worked out and kept."""
        if found.facts is not None:
            return found.facts
        canonical = self._database.graph(found.graph_hash)
        if canonical is None:
            return None
        facts = _facts(from_json(canonical))
        self._list.keep_facts(found.graph_hash, facts)
        return facts


def _facts(graph: Graph) -> GraphFacts:
    return GraphFacts(
        node_count=len(graph.nodes),
        parameter_count=graph.parameter_count,
        flops=float(cost_table(graph).flops.sum()),
        source=orjson.dumps(dict(graph.source)).decode(),
    )


def _entry(found: RegisteredGraph, facts: GraphFacts | None) -> dict[str, Any]:
    return {
        "graph": found.graph_hash,
        "mode": found.mode or None,
        "batch_size": found.batch_size or None,
        "tokens_per_sample": found.tokens_per_sample,
        "node_count": facts and facts.node_count,
        "parameter_count": facts and facts.parameter_count,
        "flops": facts and facts.flops,
        "source": orjson.loads(facts.source) if facts else {},
        "created_at": found.created_at or None,
    }
