"""Constants as plain JSON values and back, by the types of their fields.

Enumerations stand by their word, those that count in lower case by their name. What JSON cannot say
(nothing, infinity) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from perfmodel.errors import DamagedArtifactError

T = TypeVar("T")


def as_plain(value: Any) -> Any:
    """Return constants as plain JSON values.

    Examples
    --------
    >>> from perfmodel.placement.topology.links import LinkClass
    >>> as_plain({LinkClass.PCIE: (1.0, 2.0)})
    {'pcie': [1.0, 2.0]}
    """
    if is_dataclass(value):
        held = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        return {name: as_plain(one) for name, one in held.items() if one not in (None, math.inf)}
    if isinstance(value, Mapping):
        return {as_plain(key): as_plain(one) for key, one in value.items()}
    if isinstance(value, Enum):
        return value.value if isinstance(value, StrEnum) else value.name.lower()
    return [as_plain(one) for one in value] if isinstance(value, tuple) else value


def read_constants(kind: type[T], plain: Any, *, least: float = -math.inf) -> T:
    """Read back what :func:`as_plain` made of a dataclass.

    Parameters
    ----------
    least : float
        No number may be below it; none may be infinite.

    Raises
    ------
    DamagedArtifactError
        It is something else.
    """
    with refused(kind.__name__):
        found: T = _value(kind, plain, least, kind.__name__)
        return found


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Refuse constants that cannot be read, whatever is wrong with them."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedArtifactError(
            f"The fitted constants of {what} cannot be read ({error!r}). "
            "Install the package again, or run: perfmodel fit-placement."
        ) from error


def _value(kind: Any, plain: Any, least: float, where: str) -> Any:
    inner, hints = get_args(kind), _hints(kind)
    if hints:
        for name in plain.keys() - hints.keys():
            raise ValueError(f"{where} has no {name}")
        return kind(**{n: _value(hints[n], one, least, n) for n, one in plain.items()})
    if get_origin(kind) is Mapping:
        key, of = inner
        read = {_key(key, word): _value(of, one, least, word) for word, one in plain.items()}
        return MappingProxyType(read)
    if get_origin(kind) is tuple:
        if inner[-1] is not Ellipsis and len(plain) != len(inner):
            raise ValueError(f"{len(plain)} numbers where {len(inner)} are needed")
        return tuple(_value(inner[0], one, least, where) for one in plain)
    number = kind(plain)
    if not (math.isfinite(number) and number >= least):
        raise ValueError(f"{where} = {plain!r}")
    return number


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind) if is_dataclass(kind) else {}


def _key(kind: Any, word: str) -> Any:
    if not issubclass(kind, Enum) or issubclass(kind, StrEnum):
        return kind(word)
    return kind[word.upper()]
