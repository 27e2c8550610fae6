"""File systems of a few kilobytes, which really are full."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a file system of so many bytes on a folder; skips a test that may not."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    if shutil.which("mount") is None:
        pytest.skip("There is no command to mount a file system with.")
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"No file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def leave_free(folder: Path, free_bytes: int) -> None:
    """Fill a file system but for so many bytes."""
    filling = folder / "filling"
    filling.unlink(missing_ok=True)
    count = shutil.disk_usage(folder).free - free_bytes
    with filling.open("wb") as file:
        file.write(bytes(count))
