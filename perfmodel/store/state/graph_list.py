"""Which graphs clients registered, and what there is to say of them without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, or_, select, update

from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import Page, SharedStore, insert_new, record_from
from perfmodel.store.sql.tables import OWNERS, REGISTRATIONS

#: Name of the counter that each correction raises.
REVISION = "graphs"


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphFacts:
    """What there is to say of a graph.

    Parameters
    ----------
    flops : float
        Of one step.
    source : str
        Where it comes from, as JSON.
    """

    node_count: int
    parameter_count: int
    flops: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredGraph:
    """A graph that a client registered.

    Parameters
    ----------
    facts : GraphFacts or None
        None where it was registered before facts were kept.
    owner : str
        The key that registered it first; ``""`` is nobody.
    """

    graph_hash: str
    mode: str
    batch_size: int
    tokens_per_sample: int | None
    facts: GraphFacts | None
    created_at: str
    owner: str = ""


class GraphList(SharedStore):
    """Lists registered graphs; the graphs themselves are kept by ``Database``."""

    def page(
        self, *, owner: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[RegisteredGraph]:
        """Return some registered graphs, newest first: those that a key registered, or all."""
        query, number = select(REGISTRATIONS), REGISTRATIONS.c.id
        if owner is not None:
            query = query.where(_is_of(owner))
        return self._page(query, number, _registered, cursor=cursor, limit=limit)

    def keep_owner(self, graph_hash: str, owner: str) -> None:
        """Keep that a key registered a graph which another one did first."""
        row = {"ref": graph_hash, "owner": owner, "created_at": now()}
        with self._connections.writing() as connection:
            insert_new(connection, OWNERS, [row], "owner", "ref")

    def is_of(self, graph_hash: str, owner: str) -> bool:
        """Tell whether a key registered a graph."""
        found = REGISTRATIONS.c.hash
        query = select(found).where(found == graph_hash, _is_of(owner))
        return self._has(query)

    def find(self, graph_hash: str) -> RegisteredGraph | None:
        """Return a registered graph, or None."""
        query = select(REGISTRATIONS).where(REGISTRATIONS.c.hash == graph_hash)
        return self._find(query, _registered)

    def keep_facts(self, graph_hash: str, facts: GraphFacts) -> None:
        """Keep what there is to say of a registered graph."""
        mine = REGISTRATIONS.c.hash == graph_hash
        self._write(update(REGISTRATIONS).where(mine).values(**asdict(facts)))

    def correct(self, graph_hash: str, facts: Mapping[str, Any]) -> bool:
        """State anew how a graph was captured; False where it is not registered.

        Parameters
        ----------
        facts : mapping
            Those of ``mode``, ``batch_size`` and ``tokens_per_sample`` that are others.
        """
        with self._changing(REVISION) as connection:
            stated = update(REGISTRATIONS).where(REGISTRATIONS.c.hash == graph_hash)
            return connection.execute(stated.values(**facts)).rowcount > 0


def _is_of(owner: str) -> ColumnElement[bool]:
    later = select(OWNERS.c.ref).where(OWNERS.c.owner == owner)
    return or_(REGISTRATIONS.c.owner == owner, REGISTRATIONS.c.hash.in_(later))


def _registered(row: Row[Any]) -> RegisteredGraph:
    facts = None if row.source is None else record_from(GraphFacts, row)
    return record_from(
        RegisteredGraph, row, graph_hash=row.hash, facts=facts, owner=row.owner or ""
    )
