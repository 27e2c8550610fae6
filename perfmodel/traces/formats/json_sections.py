"""Some arrays of a long JSON document, wherever they are nested, read piece by piece.

:class:`perfmodel.traces.formats.json_events.JsonEvents` reads the one long array of a flat document
and is faster; this walks through documents with several, and keeps nothing else of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats import loose_json
from perfmodel.traces.limits import TraceLimits

#: Keys of objects from the outermost in; arrays count for nothing.
JsonPath = tuple[str, ...]

#: Where elements stand, which element of the arrays around them they belong to, counted from one
#: (0 where only objects are around them), and the elements.
JsonSection = tuple[JsonPath, int, list[Any]]

#: A string that is not closed reaches to the end of what was read.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
#: What can be passed over inside of a container, up to a bracket that has to be counted.
_INSIDE = re.compile(
    rb"""
    (?: [^"{}\[\]]++
      | "[^"\\]*+(?:\\.[^"\\]*+)*+"
      | [\[{] (?: [^"{}\[\]]++ | "[^"\\]*+(?:\\.[^"\\]*+)*+" )*+ [\]}]
    )*+
    ([{}\[\]])?
    """,
    re.DOTALL | re.VERBOSE,
)
_COLON = re.compile(rb"\s*(.)", re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")
_QUOTE = ord('"')
_DEPTH = 100
_BATCH_BYTES = 2**20
_OPENS = b"{["
_CLOSES = {ord("}"): ord("{"), ord("]"): ord("[")}


def json_sections(
    pieces: Iterator[bytes], wanted: Collection[JsonPath], *, name: str, limits: TraceLimits
) -> Iterator[JsonSection]:
    """Yield elements of the wanted arrays in the order of the document, some thousands at a time.

    Raises
    ------
    InvalidTraceError
        The document is no sound JSON, ends too early, or nests too deeply.
    """
    yield from _Walk(pieces, frozenset(wanted), name, limits.small_events).batches()


class _Walk:
    """A walk through a document, token by token.

    Containers on the way to a wanted array are open one by one; what is inside of an element, or of
    a container that leads nowhere, is counted only.
    """

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
        #: Containers that are open inside of an element or of one that leads nowhere.
        self._deep = 0
        #: Elements of arrays on the way that were entered.
        self._owner = 0
        #: Where elements begin and end that are not given out yet; None outside of wanted arrays.
        self._from: int | None = None
        self._last = 0

    def batches(self) -> Iterator[JsonSection]:
        begun = False
        while self._fill():
            yield from self._tokens()
            begun = begun or self._at > 0
            if self._from is not None and self._last - self._from > _BATCH_BYTES:
                yield self._path(), self._owner, self._elements(self._last)
                self._from = self._last
            self._drop(self._at if self._from is None else self._from)
        if self._open or self._deep or not begun:
            raise InvalidTraceError(
                f"{self._name} is no whole JSON document: it ends inside of "
                f"{'.'.join(self._path()) or 'nothing'!r}. It was cut; copy it again."
            )

    def _tokens(self) -> Iterator[JsonSection]:
        """Look at what is new; yield the elements of arrays that end in it."""
        while True:
            if self._deep:
                if not self._passed():
                    return
                continue
            token = _TOKEN.search(self._buffer, self._at)
            if token is None:
                self._at = len(self._buffer)
                return
            first = self._buffer[token.start()]
            if first == _QUOTE:
                if not self._string(token):
                    return
            elif first in _OPENS:
                self._deep = self._opened(first, token.end())
            elif elements := self._closed(first, token.start()):
                yield elements
            self._at = token.end()

    def _passed(self) -> bool:
        """Pass to the end of an element, or of what leads nowhere; False where it is not there."""
        buffer, deep = self._buffer, self._deep
        while deep:
            found = _INSIDE.match(buffer, self._at)
            assert found is not None  # it matches nothing too
            self._at = found.end()
            if found[1] is None:
                break
            deep += 1 if found[1] in _OPENS else -1
            if deep > _DEPTH:
                raise InvalidTraceError(f"{self._name} nests more than {_DEPTH} deep.")
        self._deep = deep
        if not deep:
            self._last = self._at
        return not deep

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
            return False  # also where the string itself is not whole
        within = self._open and self._open[-1][0] == ord("{")
        if within and follows is not None and follows[1] == b":":
            self._key = token[0][1:-1].decode(errors="replace")
        return True

    def _opened(self, bracket: int, end: int) -> int:
        """Open a container; return 1 where only its end matters."""
        if self._from is not None:
            return 1
        path = (*self._path(), *((self._key,) if self._key else ()))
        if len(self._open) > _DEPTH or not any(w[: len(path)] == path for w in self._wanted):
            return 1
        self._owner += bool(self._open) and self._open[-1][0] == ord("[")
        self._open.append((bracket, self._key))
        self._key = ""
        if bracket == ord("[") and path in self._wanted:
            self._from = self._last = end
        return 0

    def _closed(self, bracket: int, start: int) -> JsonSection | None:
        """Close a container; return its elements where they are wanted."""
        if not self._open or self._open[-1][0] != _CLOSES[bracket]:
            raise InvalidTraceError(
                f"{self._name} is no sound JSON: {chr(bracket)!r} closes nothing."
            )
        found = None
        if self._from is not None:
            found = (self._path(), self._owner, self._elements(start))
            self._from = None
        self._open.pop()
        self._key = ""
        return found

    def _path(self) -> JsonPath:
        return tuple(key for _, key in self._open if key)

    def _elements(self, end: int) -> list[Any]:
        start = _SEPARATORS.match(self._buffer, self._from or 0)
        assert start is not None
        text = bytes(self._buffer[start.end() : end])
        try:
            found: list[Any] = loose_json.loads(b"[" + text + b"]")
        except ValueError as error:
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
