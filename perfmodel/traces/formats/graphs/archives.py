"""Tar archives with one execution trace in it, read without unpacking them to disk.

PyTorch packs an execution trace with the sources of its Triton kernels, others pack several files.
Members are read as a stream: names and links in the archive are never followed.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.graphs import chakra, execution_trace
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import Trace

NAME = "tar"
_MAGIC = b"ustar"
_MAGIC_AT = 257
_PIECE_BYTES = 2**20
#: Of headers and names; sparse files and endless names are no traces.
_MOST_AT_ONCE = 2**24
_MOST_MEMBERS = 10_000
_FORMATS: tuple[ModuleType, ...] = (execution_trace, chakra)


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a tar archive, packed or not."""
    return head[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read the execution trace of an archive.

    Raises
    ------
    InvalidTraceError
        There is none or more than one in it, or the archive is damaged.
    """
    found: list[Trace] = []
    names: list[str] = []
    others = 0
    try:
        with tarfile.open(fileobj=cast(Any, _Stream(path, limits)), mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= _MOST_MEMBERS:
                    raise InvalidTraceError(f"{path.name} has more than {_MOST_MEMBERS} members.")
                content = archive.extractfile(member) if member.isreg() else None
                trace = _read_member(f"{path.name}:{member.name}", content, limits)
                if trace is not None:
                    found[:] = [trace]
                    names.append(member.name)
                others += trace is None and member.isreg()
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise InvalidTraceError(
            f"{path.name} is a damaged tar archive: {error}. Copy it again."
        ) from error
    return _only(path.name, found, names, others)


def _only(archive: str, found: list[Trace], names: list[str], others: int) -> Trace:
    if not found:
        raise InvalidTraceError(
            f"{archive} holds {others} files and no execution trace among them. Traces of other "
            "formats are read unpacked: unpack it and give the trace."
        )
    if len(names) > 1:
        raise InvalidTraceError(
            f"{archive} holds {len(names)} traces: {', '.join(map(repr, names[:5]))}. Unpack it "
            "and give the one that you mean."
        )
    return found[0]


def _read_member(name: str, content: IO[bytes] | None, limits: TraceLimits) -> Trace | None:
    """Read a member if it is a trace; None where it is not."""
    if content is None:
        return None
    head = content.read(_PIECE_BYTES)
    for one in _FORMATS:
        if one.recognise(head, Path(name)):
            trace: Trace = one.read_pieces(name, _pieces(head, content), limits)
            return trace
    return None


def _pieces(head: bytes, content: IO[bytes]) -> Iterator[bytes]:
    yield head
    yield from iter(lambda: content.read(_PIECE_BYTES), b"")


class _Stream:
    """The unpacked bytes of a file as :mod:`tarfile` reads them, never many at once."""

    def __init__(self, path: Path, limits: TraceLimits) -> None:
        self._pieces = unpacked(path, limits)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end.

        Raises
        ------
        InvalidTraceError
            More are asked for than a header or a piece of a trace has.
        """
        if size > _MOST_AT_ONCE:
            raise InvalidTraceError("The tar archive has a header of more than 16 MiB.")
        parts, missing = [self._rest[:size]], size - len(self._rest)
        self._rest = self._rest[size:]
        while missing > 0 and (piece := next(self._pieces, b"")):
            parts.append(piece[:missing])
            self._rest = piece[missing:]
            missing -= len(piece)
        return b"".join(parts)
