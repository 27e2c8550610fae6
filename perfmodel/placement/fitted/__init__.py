"""Constants of the placement floor that were fitted on measurements, with where they come from.

One JSON file for each part: ``constants`` (what the part reads), ``source``, ``rows``, ``command``
and ``date``. ``perfmodel fit-placement`` writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any

from perfmodel.errors import DamagedArtifactError

_STAND_INS: dict[str, Mapping[str, Any]] = {}


def fitted(part: str) -> Mapping[str, Any]:
    """Return the constants of one part; the file is read once.

    Parameters
    ----------
    part : str
        Name of a file in this folder without its ending.

    Raises
    ------
    DamagedArtifactError
        The file is missing or is not what ``perfmodel fit-placement`` writes.
    """
    return _STAND_INS[part] if part in _STAND_INS else _read(part)


def forget() -> None:
    """Read the files again when they are asked for next."""
    _read.cache_clear()


@contextmanager
def standing_in(part: str, constants: Mapping[str, Any]) -> Iterator[None]:
    """Let other constants answer for the shipped ones, in this process.

    Only for judging answers by constants that have not seen what is asked. Parts that keep what
    they made of their constants are not moved by it.
    """
    _STAND_INS[part] = constants
    try:
        yield
    finally:
        del _STAND_INS[part]


@cache
def _read(part: str) -> Mapping[str, Any]:
    file = resources.files(__name__) / f"{part}.json"
    try:
        constants = json.loads(file.read_text(encoding="utf-8"))["constants"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedArtifactError(
            f"The fitted constants {part!r} of the placement floor cannot be read ({error}). "
            "Install the package again, or run: perfmodel fit-placement."
        ) from error
    if not isinstance(constants, dict):
        raise DamagedArtifactError(f"The fitted constants {part!r} are no object.")
    return constants
