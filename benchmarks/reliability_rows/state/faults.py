"""Disks and clocks that fail on demand, under a service that is not changed for it."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reliability_rows.row import NotHereError

_SOURCE = Path(__file__).with_name("faults.c")
#: As ``struct faults`` of the source.
_FORM = "iiq"


class Faults:
    """Tells one service how its disk and its clock behave.

    Parameters
    ----------
    folder : Path
        Where what is needed for it lies.
    kept : Path
        Folder whose files the failing disk holds.

    Raises
    ------
    NotHereError
        There is no C compiler, or no way to preload a library.
    """

    def __init__(self, folder: Path, kept: Path) -> None:
        self._library = _compiled(folder)
        self._kept = kept
        self._file = folder / "faults"
        self._file.write_bytes(bytes(struct.calcsize(_FORM)))
        with self._file.open("r+b") as file:
            self._told = mmap.mmap(file.fileno(), 0)
        self._clock_off_s = 0

    @property
    def settings(self) -> Mapping[str, str]:
        """Variables of the environment of the service."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAULTS_FILE": str(self._file),
            "FAULTS_FOLDER": str(self._kept),
        }

    def fail(self, error: int, *, after: int = 0) -> None:
        """Let every change of a file fail from now on, some that come before it excepted.

        Parameters
        ----------
        error : int
            An ``errno``.
        after : int
            Changes that succeed first.
        """
        self._tell(error, after)

    def heal(self) -> None:
        """Let the disk work."""
        self._tell(0, 0)

    def set_clock(self, off_s: int) -> None:
        """Put the clock of the day ahead of the real one, or behind it."""
        self._clock_off_s = off_s
        self.heal()

    def _tell(self, error: int, spared: int) -> None:
        # What is spared stands before the error that makes anybody look at it.
        self._told[:] = struct.pack(_FORM, 0, spared, self._clock_off_s)
        self._told[:] = struct.pack(_FORM, error, spared, self._clock_off_s)


@contextmanager
def faulty_folder() -> Iterator[tuple[Path, Faults]]:
    """Make a folder for what a service keeps, and what tells how its disk and clock behave."""
    with tempfile.TemporaryDirectory() as name:
        kept = Path(name) / "kept"
        kept.mkdir()
        yield kept, Faults(Path(name), kept)


def _compiled(folder: Path) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or os.uname().sysname != "Linux":
        raise NotHereError("failing disks and clocks need Linux and a C compiler (cc)")
    library = folder / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library
