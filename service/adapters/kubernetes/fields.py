"""Read objects as Go writes them: untagged names in capitals, any case taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import MAX_COUNT, shown

#: What the suffix of a quantity multiplies; those that are missing make more than any node has.
_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 10**3), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
}  # fmt: skip
#: Longer quantities are not read.
_LONGEST = 30
_QUANTITY = re.compile(
    r"(?P<number>\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    rf"(?:[eE](?P<exponent>[+-]?[0-9])|(?P<suffix>{'|'.join(_SUFFIXES)}))"
)


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


def as_object_field(of: Mapping[str, Any], name: str, what: str) -> Mapping[str, Any]:
    """Return a member of an object that is an object; what leaves it out is no such request."""
    found = field(of, name)
    if not isinstance(found, dict):
        raise InvalidInputError(
            f"{what} has an object {name!r}; got {shown(found)}.", pointer=f"/{name}"
        )
    return found


def whole_quantity(amount: object) -> int:
    """Return how many a quantity of Kubernetes means; 0 where it is no whole number of things.

    Examples
    --------
    >>> [whole_quantity(amount) for amount in (8, "8", "8000m", "1e1", "1Ki", 2.0)]
    [8, 8, 8, 10, 1024, 2]
    >>> [whole_quantity(amount) for amount in ("500m", "-1", "eight", True, None)]
    [0, 0, 0, 0, 0]
    """
    is_number = isinstance(amount, int | float | str) and not isinstance(amount, bool)
    text = str(amount).strip() if is_number else ""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return 0
    scale = _SUFFIXES[found["suffix"] or ""] * Fraction(10) ** int(found["exponent"] or 0)
    count = Fraction(found["number"]) * scale
    return int(count) if count.denominator == 1 and count <= MAX_COUNT else 0


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
