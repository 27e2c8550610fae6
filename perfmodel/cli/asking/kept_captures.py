"""Captures of this user, kept for the next command."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perfmodel.errors import PerfModelError

if TYPE_CHECKING:
    from perfmodel.estimator import CapturedStep, GraphSource
    from perfmodel.graph.job import Job

#: Code that decides what a capture returns, below the package.
_CAPTURES = ("capture", "graph", "zoo", "estimator/jobs/capture.py")
#: A file of captures that has grown beyond this is begun anew.
_MOST_KEPT_BYTES = 512 * 1024 * 1024
#: Captures that no command looked at for so long are removed: other code made them, most likely.
_KEPT_S = 30 * 86_400.0


def kept_graphs() -> GraphSource:
    """Return what knows shipped graphs, captures the rest, and keeps that in the cache of the user.

    ``PERFMODEL_CACHE`` moves that folder. Where it cannot be written, or the libraries of databases
    are absent, every command captures again.
    """
    return _ShippedOrKept()


class _ShippedOrKept:
    """Loads nothing that captures or keeps before a job needs it."""

    def step(self, job: Job) -> CapturedStep:
        """Return the captured step of a job."""
        from perfmodel.estimator.jobs.capture import shipped_or_captured
        from perfmodel.estimator.jobs.captured_view import captured_view
        from perfmodel.zoo.shipped.shipped_graphs import is_shipped

        view = captured_view(job)
        if view.accumulation_steps == job.accumulation_steps and is_shipped(view):
            return shipped_or_captured(view)
        return self._library.step(job)

    @cached_property
    def _library(self) -> GraphSource:
        from perfmodel.estimator.jobs.capture import capture_in_process
        from perfmodel.estimator.jobs.graph_library import GraphLibrary

        try:
            from perfmodel.store.state.database import Database

            kept = Database(f"sqlite:///{_file()}")
            return GraphLibrary(capture=capture_in_process, database=kept)
        except (ImportError, OSError, PerfModelError):
            return GraphLibrary(capture=capture_in_process)


def _file() -> Path:
    """Return the file that captures are kept in; those that nobody used for long are removed."""
    own = os.environ.get("XDG_CACHE_HOME")
    usual = Path(own) / "perfmodel" if own else Path("~/.cache/perfmodel").expanduser()
    folder = Path(os.environ.get("PERFMODEL_CACHE") or usual) / "captures"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_code()}.db"
    if _size(path) > _MOST_KEPT_BYTES:
        path.unlink(missing_ok=True)
    for other in folder.glob("*.db*"):
        with contextlib.suppress(OSError):  # another process was quicker
            if time.time() - other.stat().st_mtime > _KEPT_S:
                other.unlink()
    path.touch()
    return path


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _code() -> str:
    """Return a hash of the code that captures: what other code captured is not what this would."""
    package = Path(__file__).parents[2]
    state = hashlib.blake2b(digest_size=8)
    for name in _CAPTURES:
        path = package / name
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            state.update(source.relative_to(package).as_posix().encode() + b"\0")
            state.update(source.read_bytes())
    return state.hexdigest()
