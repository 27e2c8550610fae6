"""Archives of traces, tar (plain or gzipped) and zip: their members as files of their own.

Readers of traces open files, some of them several times or with what lies beside them. So members
are copied, as a stream and within bounds, into a folder that is gone afterwards. What an archive
calls its members never becomes a path: of a name the last part alone, in a numbered folder for
each folder of the archive.
"""

from __future__ import annotations

import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, cast

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.unpacking import check_size, unpacked
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import Trace

NAME = "archive"
_TAR_MAGIC = b"ustar"
_TAR_MAGIC_AT = 257
#: Of a zip archive with members, and without.
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PIECE_BYTES = 2**20
#: Of headers and names, and of the list of members of a zip archive.
_MOST_AT_ONCE = 2**22
_MOST_MEMBERS = 10_000
_LONGEST_NAME = 200
_ENCRYPTED = 1
#: What begins at a root, or climbs out of the folder that it is unpacked to.
_OUTSIDE = re.compile(r"^[/\\]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|$)")
_PACKED_AS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What the libraries raise of damaged archives; zipfile RuntimeErrors of several meanings.
_FAILURES = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError,
)  # fmt: skip


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is an archive, of tar packed or not."""
    return _is_tar(head) or head.startswith(_ZIP)


def _is_tar(head: bytes) -> bool:
    return head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC


def read(path: Path, limits: TraceLimits) -> Trace:
    """Refuse an archive: as a member of another one no further one is opened.

    Raises
    ------
    InvalidTraceError
        Always.
    """
    raise InvalidTraceError(f"{path.name} is an archive in an archive: unpack the outer one.")


@contextmanager
def copied_members(path: Path, head: bytes, limits: TraceLimits) -> Iterator[Mapping[str, Path]]:
    """Copy the members of an archive into a folder that is gone afterwards.

    Yields
    ------
    mapping of str to Path
        The copies by the names that members have in the archive, in its order.

    Raises
    ------
    InvalidTraceError
        It is damaged or encrypted, unpacks to absurdly much, or has members that are links, devices
        or lie outside of it.
    """
    with TemporaryDirectory(prefix="perfmodel-traces-") as folder:
        copies = _Copies(path, Path(folder), limits)
        try:
            copy = _copy_tar if _is_tar(head) else _copy_zip
            copy(path, copies, limits)
        except _FAILURES as error:
            raise InvalidTraceError(
                f"{path.name} is a damaged archive: {str(error)[:200]}. Copy it again."
            ) from error
        except OSError as error:
            raise InvalidTraceError(
                f"The members of {path.name} cannot be copied to {folder}: "
                f"{error.strerror or error}. TMPDIR names a folder with room for them."
            ) from error
        yield copies.files


def _copy_tar(path: Path, copies: _Copies, limits: TraceLimits) -> None:
    stream = cast(Any, _Stream(path, limits))
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            kind = "" if member.isreg() or member.isdir() else "a link or device"
            copies.check(member.name, "a sparse file" if member.issparse() else kind)
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                copies.add(member.name, content)


def _copy_zip(path: Path, copies: _Copies, limits: TraceLimits) -> None:
    with path.open("rb") as file, zipfile.ZipFile(cast(Any, _Bounded(file, path.name))) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            special = stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR)
            kind = "a link or device" if special else ""
            if member.compress_type not in _PACKED_AS:
                kind = f"packed by method {member.compress_type}, not by deflate,"
            kind = "encrypted" if member.flag_bits & _ENCRYPTED else kind
            copies.check(member.filename, kind)
            if not member.is_dir():
                with archive.open(member) as content:
                    copies.add(member.filename, content)


class _Copies:
    """The copies of members so far."""

    def __init__(self, archive: Path, folder: Path, limits: TraceLimits) -> None:
        self.files: dict[str, Path] = {}
        self._archive = archive
        self._archive_bytes = archive.stat().st_size
        self._folder = folder
        self._limits = limits
        self._folders: dict[str, int] = {}
        self._seen = self._total_bytes = 0

    def check(self, name: str, unfit: str) -> None:
        """Refuse a member that no archive of traces has; ``unfit`` says what is wrong with it."""
        self._seen += 1
        if self._seen > _MOST_MEMBERS:
            raise InvalidTraceError(f"{self._archive.name} has more than {_MOST_MEMBERS} members.")
        if _OUTSIDE.search(name):
            unfit = "named outside of the archive"
        if unfit:
            raise InvalidTraceError(
                f"{name[:_LONGEST_NAME]!r} in {self._archive.name} is {unfit} and is not opened: "
                "pack the traces themselves, under relative names, or give them unpacked."
            )

    def add(self, name: str, content: IO[bytes]) -> None:
        """Copy a member; of two that are called alike the later one stays."""
        archive = self._archive
        within, _, last = name.replace("\\", "/").rpartition("/")
        number = self._folders.setdefault(within, len(self._folders))
        place = self._folder / str(number) / last.replace("\0", "")[-_LONGEST_NAME:]
        place.parent.mkdir(exist_ok=True)
        with place.open("wb") as copy:
            while piece := content.read(_PIECE_BYTES):
                self._total_bytes += len(piece)
                check_size(archive.name, self._total_bytes, self._archive_bytes, self._limits)
                copy.write(piece)
        self.files[name] = place


class _Bounded:
    """A file of which little is read at once: the list of members is read whole."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self.seek, self.tell = file.seek, file.tell
        self.seekable, self.close = file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes.

        Raises
        ------
        InvalidTraceError
            More are asked for than a list of members or a piece of one has.
        """
        content = self._file.read(min(size, _MOST_AT_ONCE) if size >= 0 else _MOST_AT_ONCE)
        if size > _MOST_AT_ONCE or len(content) == _MOST_AT_ONCE:
            raise InvalidTraceError(f"{self._name} lists more members than archives of traces do.")
        return content


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
            raise InvalidTraceError("The tar archive has a header of more than 4 MiB.")
        parts, missing = [self._rest[:size]], size - len(self._rest)
        self._rest = self._rest[size:]
        while missing > 0 and (piece := next(self._pieces, b"")):
            parts.append(piece[:missing])
            self._rest = piece[missing:]
            missing -= len(piece)
        return b"".join(parts)
