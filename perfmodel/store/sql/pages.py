"""Pages of long lists: each says where the next one begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from perfmodel.errors import InvalidInputError

Item = TypeVar("Item")

#: Most items of one page.
MOST_ITEMS = 1_000

_PREFIX = "before-"


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Some items of a list, newest first.

    Parameters
    ----------
    next_cursor : str or None
        Asks for the items after these; None where there are no more. Items that are added
        meanwhile shift nothing.
    """

    items: tuple[Item, ...]
    next_cursor: str | None = None


def write_cursor(row_number: int) -> str:
    """Return the cursor that asks for the rows before one.

    Examples
    --------
    >>> read_cursor(write_cursor(12))
    12
    """
    return f"{_PREFIX}{row_number:x}"


def read_cursor(cursor: str | None) -> int | None:
    """Return the number of the row that a cursor asks for the rows before.

    Parameters
    ----------
    cursor : str or None
        None asks for the first page.

    Raises
    ------
    InvalidInputError
        Not a cursor of ours.
    """
    if cursor is None:
        return None
    digits = cursor.removeprefix(_PREFIX)
    try:
        if digits == cursor or not 0 < len(digits) <= 15:
            raise ValueError(cursor)
        return int(digits, 16)
    except ValueError as error:
        raise InvalidInputError(
            f"The cursor {cursor[:60]!r} is none. Send the next_cursor of a page as it came, or "
            "none for the first.",
            pointer="/query/cursor",
        ) from error
