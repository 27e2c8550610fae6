"""The folder of one retraining: what each phase found, and which of them are finished.

A phase writes its files into a folder of its own and then, in one go, the marker that says that it
is finished, with its result. Without the marker whatever lies there is thrown away and the phase
begins again; with it the phase is never done twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import StoreError
from perfmodel.store.durable import write_whole


class Phase(StrEnum):
    """What is done one after the other."""

    SNAPSHOT = "snapshot"
    """What is learned from is listed and frozen."""
    CAPTURE = "capture"
    """Jobs that were measured elsewhere become graphs."""
    FIT = "fit"
    """Predictors learn."""
    CALIBRATE = "calibrate"
    """Intervals and scores are worked out, and the version is written."""
    JUDGE = "judge"
    """Evidence of the candidate and of the version that serves is gathered."""
    DECIDE = "decide"
    """The gate says whether it may serve."""
    PUBLISH = "publish"
    """The version goes to the store of models, in the state that was decided."""


PHASES = tuple(Phase)
#: Share of the whole time that each takes, roughly, for the progress that is shown.
_SHARES = (0.02, 0.13, 0.6, 0.05, 0.15, 0.02, 0.03)


def fraction_before(phase: Phase) -> float:
    """Return how much is done when a phase begins, in [0, 1]."""
    return round(sum(_SHARES[: PHASES.index(phase)]), 6)


class RunFolder:
    """Results of the phases of one retraining on disk.

    Raises
    ------
    StoreError
        In every method: the disk is full, or cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, phase: Phase) -> Path:
        """Return the folder of the files of a phase."""
        return self.folder / phase.value

    def result(self, phase: Phase) -> Mapping[str, Any] | None:
        """Return what came of a phase; None as long as it is not finished."""
        try:
            content = self._marker(phase).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        try:
            found = orjson.loads(content)
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None

    def begin(self, phase: Phase) -> Path:
        """Return the empty folder of a phase that is begun, or begun again."""
        folder = self.path(phase)
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        except OSError as error:
            raise self._unusable(error) from error
        return folder

    def finish(self, phase: Phase, result: Mapping[str, Any]) -> None:
        """Say that a phase is finished; when this returns, it is for good."""
        try:
            _sync_tree(self.path(phase))
            write_whole(self._marker(phase), orjson.dumps(dict(result), option=_READABLE))
        except OSError as error:
            raise self._unusable(error) from error

    def forget_from(self, first: Phase) -> None:
        """Begin with a phase again; the last marker goes first."""
        try:
            for phase in reversed(PHASES[PHASES.index(first) :]):
                self._marker(phase).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _marker(self, phase: Phase) -> Path:
        return self.folder / f"{phase.value}.json"

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(
            f"The folder {self.folder} of the retraining cannot be used: "
            f"{error.strerror or error}. Check its permissions and the free space."
        )


_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def _sync_tree(folder: Path) -> None:
    """Bring every file of a folder to the disk before its marker says that it is there."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
