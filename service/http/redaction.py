"""Take places of this server out of what callers are told: paths, and addresses of databases."""

from __future__ import annotations

import re
import sys
import tempfile
from functools import cache
from pathlib import Path

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]*://[^\s'\"),;]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.:/@])/(?:[^\s'\"),;:]+)")


def without_places(text: str) -> str:
    """Return a text of the server about itself, paths cut to their last part.

    Examples
    --------
    >>> without_places("The database sqlite:////var/lib/perfmodel/a.db cannot be used.")
    'The database (sqlite) cannot be used.'
    >>> without_places("/srv/models/default/1 is damaged.")
    '1 is damaged.'
    """
    text = _ADDRESS.sub(lambda found: f"({found[0].partition(':')[0]})", text)
    return _PATH.sub(lambda found: Path(found[0]).name, text)


def without_own_paths(text: str) -> str:
    """Return a text about what a caller sent; only paths below folders of this server are cut.

    What a caller wrote is told back as it is, ``/v1/predict`` and ``/job/model`` among it.
    """
    folders = own_folders()
    return _PATH.sub(
        lambda found: Path(found[0]).name if found[0].startswith(folders) else found[0], text
    )


@cache
def own_folders() -> tuple[str, ...]:
    """Return the folders that belong to this server."""
    found = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(__file__).resolve().parents[2],
        Path.cwd(),
        Path(tempfile.gettempdir()),
        Path("~").expanduser(),
    }
    return tuple(sorted(f"{folder}/" for folder in found if len(folder.parts) > 1))
