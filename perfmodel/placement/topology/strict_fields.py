"""Read the fields of a decoded JSON object strictly, with a pointer in every refusal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from perfmodel.errors import InvalidPlacementError, UnknownFieldError
from perfmodel.json_values import MAX_TEXT

Default = TypeVar("Default")
Word = TypeVar("Word", bound=StrEnum)

#: The least amount of anything, in its unit.
LEAST_AMOUNT = 1e-9
_FROM = f"from {LEAST_AMOUNT:g} on"


class Fields:
    """The fields of one object; each is taken once, what is left over is refused.

    Parameters
    ----------
    value : object
        Should be a mapping; None counts as empty.

    Raises
    ------
    InvalidPlacementError
        Here and in every method: not what the field may hold.
    """

    def __init__(self, value: Any, pointer: str, *, what: str) -> None:
        self.pointer = pointer
        self._taken: list[str] = []
        if value is not None and not isinstance(value, Mapping):
            raise InvalidPlacementError(
                f"{what} must be an object, got {type(value).__name__}.", pointer=pointer
            )
        self._value: Mapping[str, Any] = value or {}

    def __bool__(self) -> bool:
        return bool(self._value)

    def peek(self, name: str) -> Any:
        """Return a field as it is, without taking it."""
        return self._value.get(name)

    def child(self, name: str) -> Fields:
        """Take an object."""
        return Fields(self._take(name), f"{self.pointer}/{name}", what=name)

    def items(self, name: str, default: object = None) -> Iterator[tuple[Any, str]]:
        """Take a list; yields each item with its pointer."""
        value = self._take(name)
        value = default if value is None else value
        if not isinstance(value, list | tuple):
            raise self._refusal(name, "a list", value)
        for position, item in enumerate(value):
            yield item, f"{self.pointer}/{name}/{position}"

    def text(self, name: str) -> str:
        """Take a text that must be there and not empty."""
        value = self.optional_text(name)
        if value is None:
            raise self._refusal(name, "a text that is not empty", None)
        return value

    def optional_text(self, name: str) -> str | None:
        """Take a text or null."""
        value = self._take(name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self._refusal(name, "a text that is not empty", value)
        if value is not None and len(value) > MAX_TEXT:
            raise self._refusal(name, f"a text of {MAX_TEXT} characters at most", value[:20])
        return value

    def count(
        self, name: str, default: Default, *, least: int = 1, most: int = 1_000_000
    ) -> int | Default:
        """Take a whole number between bounds."""
        value = self._take(name)
        if value is None:
            return default
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise self._refusal(name, f"a whole number between {least} and {most}", value)
        return int(value)

    def positive(
        self, name: str, *, least: float | None = None, most: float = math.inf
    ) -> float | None:
        """Take a finite number above 0 (or from ``least`` on), or null.

        Above 0 is from :data:`LEAST_AMOUNT` on: what is divided by less is no number any more.
        """
        value = self._take(name)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        enough = number and value >= (LEAST_AMOUNT if least is None else least)
        if not enough or not math.isfinite(value) or value > most:
            bound = f"above 0, {_FROM}" if least is None else f"of at least {least:g}"
            limit = f" and at most {most:g}" if math.isfinite(most) else ""
            raise self._refusal(name, f"a finite number {bound}{limit}", value)
        return float(value)

    def flag(self, name: str) -> bool:
        """Take a truth value; absent means False."""
        value = self._take(name)
        if value is not None and not isinstance(value, bool):
            raise self._refusal(name, "true or false", value)
        return bool(value)

    def word(self, name: str, words: type[Word], default: Default) -> Word | Default:
        """Take a word of a closed vocabulary."""
        value = self._take(name)
        if value is None:
            return default
        try:
            return words(value)
        except ValueError as error:
            allowed = tuple(word.value for word in words)
            raise InvalidPlacementError(
                f"{name} must be one of {', '.join(allowed)}; got {repr(value)[:80]}.",
                pointer=f"{self.pointer}/{name}",
                allowed=allowed,
            ) from error

    def words(self, name: str, words: type[Word]) -> tuple[Word, ...]:
        """Take a list of words of a closed vocabulary, each at most once; in its order."""
        listed = list(self.items(name, ()))
        for value, pointer in listed:
            if value not in list(words):
                allowed = tuple(word.value for word in words)
                raise InvalidPlacementError(
                    f"{name} holds some of {', '.join(allowed)}; got {repr(value)[:80]}.",
                    pointer=pointer,
                    allowed=allowed,
                )
        said = [value for value, _ in listed]
        if len(set(said)) < len(said):
            raise self._refusal(name, "a list that says each word once", said)
        return tuple(word for word in words if word in said)

    def refuse_unknown(self) -> None:
        """Refuse the fields that nobody took."""
        for name in self._value:
            if name not in self._taken:
                raise UnknownFieldError(
                    str(name), known=self._taken, pointer=f"{self.pointer}/{name}"
                )

    def _take(self, name: str) -> Any:
        self._taken.append(name)
        return self._value.get(name)

    def _refusal(self, name: str, wanted: str, value: Any) -> InvalidPlacementError:
        return InvalidPlacementError(
            f"{name} must be {wanted}; got {'nothing' if value is None else repr(value)[:80]}.",
            pointer=f"{self.pointer}/{name}",
        )
