"""Constants of the placement floor that were fitted on measurements, with where they come from.

One JSON file for each part: ``constants`` (what the part reads), ``source``, ``rows``, ``command``
and ``date``. ``perfmodel fit-placement`` writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from perfmodel.errors import DamagedArtifactError


@cache
def fitted(part: str) -> Mapping[str, Any]:
    """Return the constants of one part.

    Parameters
    ----------
    part : str
        Name of a file in this folder without its ending.

    Returns
    -------
    mapping
        What the part wrote under ``constants``.

    Raises
    ------
    DamagedArtifactError
        The file is missing or is not what ``perfmodel fit-placement`` writes.
    """
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
