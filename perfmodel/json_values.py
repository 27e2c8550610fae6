"""Read single values of a decoded JSON request strictly; every refusal points at its value."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from perfmodel.errors import InvalidInputError, UnknownFieldError, UnknownWordError
from perfmodel.types import SPELLINGS, TWO_MEANINGS

#: Largest batch, accumulation or sequence that is taken for meant.
MAX_COUNT = 2**24

#: Nesting of ``model_kwargs`` and ``hf_config`` beyond which a request is refused.
MAX_DEPTH = 20

#: Characters of a text that somebody may have to remember: a name, a version.
MAX_TEXT = 1_000

Word = TypeVar("Word", bound=StrEnum)


def as_object(
    value: object, pointer: str, *, what: str, known: Sequence[str] | None = None
) -> Mapping[str, Any]:
    """Return an object, or refuse anything else.

    Parameters
    ----------
    known : sequence of str or None
        Its fields: one with any other is refused.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{what} must be an object; got {shown(value)}.", pointer=pointer)
    if known is not None:
        refuse_unknown(value, known, pointer)
    return value


def as_items(name: str, value: object, pointer: str) -> list[Any]:
    """Return a list that is not empty."""
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInputError(
            f"{name} must be a list that is not empty; got {shown(value)}.", pointer=pointer
        )
    return list(value)


def as_text(name: str, value: object, pointer: str) -> str:
    """Return a text that is not blank, of :data:`MAX_TEXT` printable characters at most."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(
            f"{name} must be a text that is not empty; got {shown(value)}.", pointer=pointer
        )
    if len(value) > MAX_TEXT:
        raise InvalidInputError(
            f"{name} has {len(value)} characters; at most {MAX_TEXT} are kept.", pointer=pointer
        )
    if not value.isprintable():
        raise InvalidInputError(
            f"{name} has printable characters alone; got {shown(value)}.", pointer=pointer
        )
    return value


def as_count(name: str, value: object, pointer: str, *, most: int = MAX_COUNT) -> int:
    """Return a whole number from 1 to ``most``."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 1 <= value <= most:  # type: ignore[operator]
        raise InvalidInputError(
            f"{name} must be a whole number from 1 to {most}; got {shown(value)}.",
            pointer=pointer,
        )
    return int(value)  # type: ignore[call-overload,no-any-return]


def as_number(name: str, value: object, pointer: str, *, least: float | None = None) -> float:
    """Return a finite number above 0, or from ``least`` on."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer beyond the floats would overflow instead of comparing as infinite.
    good = number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]
    if not good or (value <= 0 if least is None else value < least):  # type: ignore[operator]
        wanted = "above 0" if least is None else f"of {least:g} or more"
        raise InvalidInputError(
            f"{name} must be a finite number {wanted}; got {shown(value)}.", pointer=pointer
        )
    return float(value)  # type: ignore[arg-type]


def as_flag(name: str, value: object, pointer: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise InvalidInputError(
            f"{name} must be true or false; got {shown(value)}.", pointer=pointer
        )
    return value


def as_word(kind: type[Word], name: str, value: object, pointer: str) -> Word:
    """Return a member of an enumeration by its word."""
    return kind(as_known_text(name, value, [word.value for word in kind], pointer))


def as_known_text(name: str, value: object, known: Sequence[str], pointer: str) -> str:
    """Return one of some words, in any case or as the field spells it; a refusal names all.

    Examples
    --------
    >>> [as_known_text("precision", word, ["fp32", "fp16"], "") for word in ("FP16", "float")]
    ['fp16', 'fp32']
    """
    text = as_text(name, value, pointer)
    lower = text.strip().lower()
    for word in (text, lower, SPELLINGS.get(lower, lower)):
        if word in known:
            return word
    meant = [word for word in TWO_MEANINGS.get(lower, ()) if word in known]
    raise UnknownWordError(text, field=name, known=known, pointer=pointer, suggested=meant)


def refuse_unknown(fields: Mapping[str, Any], known: Sequence[str], pointer: str) -> None:
    """Refuse fields that nobody reads."""
    for name in fields:
        if name not in known:
            raise UnknownFieldError(str(name), known=known, pointer=f"{pointer}/{name}")


def refuse_not_json(value: object, pointer: str, depth: int = 0) -> None:
    """Refuse NaN, infinities, non-JSON values and excessive nesting anywhere below a field."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"Nested deeper than {MAX_DEPTH} levels.", pointer=pointer)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError(f"A number must be finite; got {value}.", pointer=pointer)
    if isinstance(value, Mapping):
        for key, item in value.items():
            refuse_not_json(item, f"{pointer}/{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            refuse_not_json(item, f"{pointer}/{position}", depth + 1)
    elif not (value is None or isinstance(value, str | int | float)):
        raise InvalidInputError(f"Not a JSON value: {type(value).__name__}.", pointer=pointer)


def shown(value: object) -> str:
    """Return a value as it is quoted in messages: short."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"{type(value).__name__} nested very deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."
