"""Parameters of a query that nobody reads are refused: misspelt ones would mean something else."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import shown


async def refuse_unknown_query(request: Request) -> None:
    """Refuse a query that states what its route does not read.

    Raises
    ------
    InvalidInputError
        With what may be stated.
    """
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    known = tuple(dict.fromkeys(_parameters(route.dependant)))
    for name in request.query_params:
        if name not in known:
            raise InvalidInputError(
                f"{shown(name)} says nothing here. Known: {', '.join(known) or 'nothing'}.",
                pointer="/query",
                allowed=known,
            )


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for below in dependant.dependencies:
        yield from _parameters(below)
