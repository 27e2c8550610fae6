"""Read objects as Go writes them: untagged names in capitals, any case taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.errors import InvalidInputError


def field(of: Mapping[str, Any], name: str) -> Any:
    """Return a member of an object whatever the case of its name; None where it is missing.

    Parameters
    ----------
    name : str
        As Go writes it; the exact name wins where several differ by case alone.

    Examples
    --------
    >>> field({"nodenames": ["n1"]}, "NodeNames")
    ['n1']
    """
    if name in of:
        return of[name]
    folded = name.casefold()
    return next((value for key, value in of.items() if key.casefold() == folded), None)


def as_object(value: Any, what: str) -> Mapping[str, Any]:
    """Return a body that is an object."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{what} is an object; got {type(value).__name__}.")
    return value


def part(of: Any, *path: str) -> Mapping[str, Any]:
    """Return an object inside an object, empty where anything on the way is missing.

    Examples
    --------
    >>> part({"metadata": {"labels": {"a": "b"}}}, "metadata", "labels")
    {'a': 'b'}
    >>> part({"metadata": None}, "metadata", "labels")
    {}
    """
    for name in path:
        of = of.get(name) if isinstance(of, dict) else None
    return of if isinstance(of, dict) else {}


def parts(of: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list inside an object, whatever the case of its name."""
    found = field(of, name) if isinstance(of, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
