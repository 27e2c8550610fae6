"""Bytes of a trace file, unpacked where it is gzipped, in pieces and within bounds."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.limits import TraceLimits

#: How much of a file formats are recognised by.
HEAD_BYTES = 2**20
_PIECE_BYTES = 2**22
_GZIP = b"\x1f\x8b"
#: Below it nothing is taken for a bomb: small traces are very regular.
_BOMB_FROM_BYTES = 2**24


class CutShortError(InvalidTraceError):
    """A gzipped file that ends, or goes bad, before its content does."""


def read_head(path: Path, limits: TraceLimits) -> bytes:
    """Return the beginning of a file, unpacked, at most :data:`HEAD_BYTES`.

    Raises
    ------
    InvalidTraceError
        It cannot be opened, is a folder, or is empty.
    """
    head = bytearray()
    # What could be unpacked is enough to recognise it.
    with contextlib.suppress(CutShortError):
        for piece in unpacked(path, limits, piece_bytes=HEAD_BYTES):
            head += piece
            if len(head) >= HEAD_BYTES:
                break
    if not head:
        raise InvalidTraceError(f"{path.name} is empty or its gzip is damaged; copy it again.")
    return bytes(head[:HEAD_BYTES])


def unpacked(
    path: Path, limits: TraceLimits, *, piece_bytes: int = _PIECE_BYTES
) -> Iterator[bytes]:
    """Yield the content of a file piece by piece, unpacked where it is gzipped, text in UTF-8.

    Raises
    ------
    InvalidTraceError
        The file cannot be read, is too large, or unpacks to absurdly much.
    CutShortError
        A gzipped file ends too early or goes bad; everything before was yielded.
    """
    total = 0
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            read = _gunzipped if packed else _plain
            decoded: Callable[[bytes], bytes] = _as_it_is
            for piece in read(file, piece_bytes):
                decoded = decoded if total else _decoder(piece)
                total += len(piece)
                check_size(path.name, total, file.tell(), limits)
                if text := decoded(piece):
                    yield text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CutShortError(
            f"{path.name} is damaged gzip after {total} unpacked bytes ({error}); copy it again."
        ) from error
    except OSError as error:
        raise InvalidTraceError(
            f"{path} cannot be read: {error.strerror or error}; name a file with a trace."
        ) from error


def _decoder(first: bytes) -> Callable[[bytes], bytes]:
    """Return what makes UTF-8 without a byte order mark of a file that begins with one.

    Shells of Windows write UTF-16 where the output of a program goes to a file.
    """
    for mark, name in ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"),
                       (codecs.BOM_UTF16_BE, "utf-16")):  # fmt: skip
        if first.startswith(mark):
            decoder = codecs.getincrementaldecoder(name)(errors="replace")
            return lambda piece: decoder.decode(piece).encode()
    return _as_it_is


def _as_it_is(piece: bytes) -> bytes:
    return piece


def _plain(file: BinaryIO, piece_bytes: int) -> Iterator[bytes]:
    return iter(lambda: file.read(piece_bytes), b"")


def _gunzipped(file: BinaryIO, piece_bytes: int) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as opened:
        # Not read(): it would lose what it had unpacked before it met the damage.
        yield from iter(lambda: opened.read1(piece_bytes), b"")


def check_size(name: str, total: int, packed: int, limits: TraceLimits) -> None:
    """Refuse what unpacks to more than any trace, or to absurdly many times its packed bytes.

    Raises
    ------
    InvalidTraceError
        With the bound.
    """
    if total > limits.size_bytes:
        raise InvalidTraceError(
            f"{name} holds more than {limits.size_bytes / 2**30:g} GiB; trace fewer steps."
        )
    if total > _BOMB_FROM_BYTES and total > limits.unpacked_ratio * packed:
        raise InvalidTraceError(
            f"{name} unpacks to more than {limits.unpacked_ratio:g} times its size, which no trace "
            "does. If it is one, unpack it yourself and give the unpacked file."
        )
