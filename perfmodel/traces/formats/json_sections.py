"""Some arrays of a long JSON document, wherever they are nested, read piece by piece.

:class:`perfmodel.traces.formats.json_events.JsonEvents` reads the one long array of a flat document
and is faster; this walks through documents with several, and keeps nothing else of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.limits import TraceLimits

#: Keys of objects from the outermost in; arrays count for nothing.
JsonPath = tuple[str, ...]

#: A string that is not closed reaches to the end of what was read.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*(.)", re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")
_QUOTE = ord('"')
_DEPTH = 100
_BATCH_BYTES = 2**20
_CLOSES = {ord("}"): ord("{"), ord("]"): ord("[")}


def json_sections(
    pieces: Iterator[bytes], wanted: Collection[JsonPath], *, name: str, limits: TraceLimits
) -> Iterator[tuple[JsonPath, list[Any]]]:
    """Yield elements of the wanted arrays in the order of the document, some thousands at a time.

    Raises
    ------
    InvalidTraceError
        The document is no sound JSON, ends too early, or nests too deeply.
    """
    yield from _Walk(pieces, frozenset(wanted), name, limits).batches()


class _Walk:
    """A walk through a document, token by token."""

    def __init__(
        self, pieces: Iterator[bytes], wanted: frozenset[JsonPath], name: str, limits: TraceLimits
    ) -> None:
        self._pieces = pieces
        self._wanted = wanted
        self._name = name
        self._limits = limits
        self._buffer = bytearray()
        self._done = False
        #: Up to where tokens were looked at.
        self._at = 0
        #: Of each open container its bracket and the key it stands under.
        self._open: list[tuple[int, str]] = []
        self._key = ""
        #: Where elements begin that are not given out yet, and the depth of their array.
        self._from: int | None = None
        self._depth = 0
        self._last = 0

    def batches(self) -> Iterator[tuple[JsonPath, list[Any]]]:
        begun = False
        while self._fill():
            size = len(self._buffer)
            for token in _TOKEN.finditer(self._buffer, self._at):
                if token[0][0] != _QUOTE:
                    if elements := self._bracket(token):
                        yield elements
                elif (self._from is None or token.end() == size) and not self._string(token):
                    break
                self._at = token.end()
            begun = begun or self._at > 0
            if self._from is not None and self._last - self._from > _BATCH_BYTES:
                yield self._path(), self._elements(self._last)
                self._from = self._last
            self._drop(self._at if self._from is None else self._from)
        if self._open or not begun:
            raise InvalidTraceError(
                f"{self._name} is no whole JSON document: it ends inside of "
                f"{'.'.join(self._path()) or 'nothing'!r}. It was cut; copy it again."
            )

    def _fill(self) -> bool:
        """Take in the next pieces; False once there is nothing left to look at."""
        wanted = 2 * len(self._buffer)
        if len(self._buffer) > self._limits.event_bytes:
            raise InvalidTraceError(
                f"{self._name} has an element of more than {self._limits.event_bytes / 2**20:g} "
                "MiB, which no trace has."
            )
        grown = False
        while not self._done and (not grown or len(self._buffer) < wanted):
            piece = next(self._pieces, b"")
            self._done = not piece
            self._buffer += piece
            grown = grown or bool(piece)
        return grown

    def _string(self, token: re.Match[bytes]) -> bool:
        """Keep a key; False where the string may go on in the next piece."""
        follows = _COLON.match(self._buffer, token.end())
        if follows is None and not self._done:
            return False
        within = self._open and self._open[-1][0] == ord("{")
        if within and self._from is None and follows is not None and follows[1] == b":":
            self._key = token[0][1:-1].decode(errors="replace")
        return True

    def _bracket(self, token: re.Match[bytes]) -> tuple[JsonPath, list[Any]] | None:
        """Open or close a container; return the elements that were read when theirs closes."""
        bracket = token[0][0]
        if bracket in b"{[":
            self._open.append((bracket, self._key))
            self._key = ""
            if len(self._open) > _DEPTH:
                raise InvalidTraceError(f"{self._name} nests more than {_DEPTH} deep.")
            if self._from is None and bracket == ord("[") and self._path() in self._wanted:
                self._from = self._last = token.end()
                self._depth = len(self._open)
            return None
        if not self._open or self._open[-1][0] != _CLOSES[bracket]:
            raise InvalidTraceError(
                f"{self._name} is no sound JSON: {chr(bracket)!r} closes nothing."
            )
        found = None
        if len(self._open) == self._depth and self._from is not None:
            found = (self._path(), self._elements(token.start()))
            self._from = None
        self._open.pop()
        self._key = ""
        if len(self._open) == self._depth and self._from is not None:
            self._last = token.end()
        return found

    def _path(self) -> JsonPath:
        return tuple(key for _, key in self._open if key)

    def _elements(self, end: int) -> list[Any]:
        start = _SEPARATORS.match(self._buffer, self._from or 0)
        assert start is not None
        text = bytes(self._buffer[start.end() : end])
        try:
            found: list[Any] = orjson.loads(b"[" + text + b"]")
        except orjson.JSONDecodeError as error:
            raise InvalidTraceError(
                f"{self._name} is no sound JSON: {error} in a piece that begins with {text[:60]!r}."
            ) from error
        return found

    def _drop(self, count: int) -> None:
        """Forget what lies behind."""
        del self._buffer[:count]
        self._at -= count
        if self._from is not None:
            self._from -= count
            self._last -= count
