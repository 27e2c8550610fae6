"""A long JSON array of events, read piece by piece.

Traces are one JSON object (or array) of up to gigabytes with the events in one long array. Pieces
of it are cut between two events and parsed for themselves. Where to cut is found by trying: a
prefix of an array that parses as an array ends between two elements, whatever its strings contain.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats import loose_json
from perfmodel.traces.formats.unpacking import CutShortError
from perfmodel.traces.limits import TraceLimits

#: Strings and what opens and closes; a string that is not closed reaches to the end.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_COLON_ARRAY = re.compile(rb"\s*:\s*\[")
_OPEN = b"{["
#: How far back from the end of a piece a place to cut is guessed; beyond it is counted.
_GUESSED_BYTES = 2**16
_GUESSES = 3
#: No event of a trace nests as deeply.
_DEPTH = 500


class JsonEvents:
    """The events of a JSON document, with what stands before and after them.

    Parameters
    ----------
    pieces : iterator of bytes
        The document.
    key : str
        Member of the outermost object that holds the events. A document that is an array holds them
        itself.
    name : str
        Of the file, for messages.

    Raises
    ------
    InvalidTraceError
        No such document, or more stands before the events than the limits allow for one event.
    """

    def __init__(
        self, pieces: Iterator[bytes], *, key: str, name: str, limits: TraceLimits
    ) -> None:
        self.name = name
        self.limits = limits
        #: Members before the events, and after them once all were read.
        self.members: dict[str, Any] = {}
        #: Why the document ended too early; empty where it did not.
        self.cut = ""
        #: What follows the document although nothing should.
        self.rest = ""
        self._pieces = pieces
        self._buffer = bytearray()
        self._done = False
        self._open(key.encode())

    def batches(self) -> Iterator[list[Any]]:
        """Yield the events, some thousands at a time."""
        while True:
            end, events = self._guessed()
            closed = False
            if not events:
                end, closed = _last_boundary(self._buffer, self.name)
                events = self._loads(b"[" + self._buffer[:end] + b"]")
            if events:
                yield events
            if closed:
                self._close(end)
                return
            if self._done and not end:
                self.cut = self.cut or "the file ends in the middle of its events"
                return
            del self._buffer[: _after_comma(self._buffer, end)]
            self._more()
            # A piece may have ended between an event and its comma.
            del self._buffer[: _after_comma(self._buffer, 0)]

    def notes(self) -> list[str]:
        """Return what a reader of the trace must know once all events were read."""
        return [f"What follows the trace was left out: {self.rest!r}."] if self.rest else []

    def _open(self, key: bytes) -> None:
        """Read up to the first event."""
        while not self._buffer.lstrip() and not self._done:
            self._more()
        start = self._buffer.lstrip()[:1]
        if start == b"[":
            del self._buffer[: self._buffer.index(b"[") + 1]
            return
        if start != b"{":
            raise InvalidTraceError(
                f"{self.name} is no JSON document of events: it begins with "
                f"{bytes(self._buffer[:40])!r}."
            )
        quoted = b'"' + key + b'"'
        while (found := _member(self._buffer, quoted, self.name)) is None:
            if self._done or len(self._buffer) > self.limits.header_bytes:
                raise InvalidTraceError(
                    f"{self.name} has no array {key.decode()!r} in its first "
                    f"{len(self._buffer)} bytes; a trace of this format has one."
                )
            self._more()
        before, after = found
        self.members = self._object(bytes(self._buffer[:before]) + b'"":0}')
        del self.members[""]
        del self._buffer[:after]

    def _close(self, end: int) -> None:
        """Read what follows the events."""
        while not self._done and len(self._buffer) < self.limits.event_bytes:
            self._more()
        del self._buffer[: self._buffer.index(b"]", end) + 1]
        tail = bytes(self._buffer).strip()
        if tail in (b"", b"}"):
            return
        close = _closing(tail)
        if not tail.startswith(b",") or close is None:
            self.rest = tail[:60].decode(errors="replace")
            return
        try:
            self.members.update(self._object(b"{" + tail[1 : close + 1]))
        except InvalidTraceError:
            close = -1
        self.rest = tail[close + 1 : close + 61].strip().decode(errors="replace")

    def _more(self) -> None:
        """Take in the next piece; at least doubles what could not be cut."""
        wanted = 2 * len(self._buffer)
        if wanted > 2 * self.limits.event_bytes:
            raise InvalidTraceError(
                f"{self.name} has an event of more than {self.limits.event_bytes / 2**20:g} MiB, "
                "or nests deeper than a trace does."
            )
        while not self._done:
            try:
                piece = next(self._pieces, b"")
            except CutShortError as error:
                self.cut, piece = error.message, b""
            self._done = not piece
            self._buffer += piece
            if len(self._buffer) >= wanted:
                return

    def _guessed(self) -> tuple[int, list[Any]]:
        """Return how far the buffer surely holds whole events, and those; none where not found."""
        tail = max(0, len(self._buffer) - _GUESSED_BYTES)
        ends = [found.start() + 1 for found in _BETWEEN.finditer(self._buffer, tail)]
        for end in ends[: -_GUESSES - 1 : -1]:
            with contextlib.suppress(orjson.JSONDecodeError):
                return end, orjson.loads(b"[" + self._buffer[:end] + b"]")
        return 0, []

    def _object(self, text: bytes) -> dict[str, Any]:
        found = self._loads(text)
        assert isinstance(found, dict)
        return found

    def _loads(self, text: bytes) -> Any:
        try:
            return loose_json.loads(text)
        except ValueError as error:
            raise InvalidTraceError(
                f"{self.name} is no sound JSON: {error} in a piece that begins with {text[:60]!r}."
            ) from error


def _member(text: bytearray, quoted: bytes, name: str) -> tuple[int, int] | None:
    """Return where a member of the outermost object begins, and where its array does."""
    depth = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in _OPEN:
            depth = _deeper(depth, name)
        elif first != ord('"'):
            depth -= 1
        elif depth == 1 and token[0] == quoted:
            array = _COLON_ARRAY.match(text, token.end())
            if array is not None:
                return token.start(), array.end()
    return None


def _last_boundary(text: bytearray, name: str) -> tuple[int, bool]:
    """Return where the last whole element of an open array ends, and whether the array ends too."""
    depth = last = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in _OPEN:
            depth = _deeper(depth, name)
        elif first != ord('"'):
            depth -= 1
            if depth < 0 and first != ord("]"):
                raise InvalidTraceError(f"{name} is no sound JSON: its events end in a brace.")
            if depth < 0:
                # Some writers leave a comma behind the last event.
                return len(text[: token.start()].rstrip(b" \t\r\n,")), True
            if depth == 0:
                last = token.end()
    return last, False


def _deeper(depth: int, name: str) -> int:
    if depth >= _DEPTH:
        raise InvalidTraceError(f"{name} nests more than {_DEPTH} deep, which no trace does.")
    return depth + 1


def _closing(tail: bytes) -> int | None:
    """Return where the outermost object is closed, seen from inside of it."""
    depth = 1
    for token in _TOKEN.finditer(tail):
        first = token[0][0]
        if first in _OPEN:
            depth += 1
        elif first != ord('"'):
            depth -= 1
            if depth == 0:
                return token.start()
    return None


def _after_comma(text: bytearray, end: int) -> int:
    """Return where the element after a boundary begins."""
    while end < len(text) and text[end] in b" \t\r\n,":
        end += 1
    return end
