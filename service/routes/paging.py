"""Lists that are answered in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Query, Response

from perfmodel.store.sql.shared_store import MOST_ITEMS, Page
from service.http.bodies import json_response

T = TypeVar("T")

Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS)]


def page_response(name: str, page: Page[T], entry: Callable[[T], Any]) -> Response:
    """Answer a page, with its items under a name."""
    return json_response(
        {name: [entry(item) for item in page.items], "next_cursor": page.next_cursor}
    )
