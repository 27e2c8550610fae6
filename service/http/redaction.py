"""Take places of this server out of what callers are told: paths, and addresses of databases."""

from __future__ import annotations

import re
import sys
import tempfile
from functools import cache
from pathlib import Path

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]*://[^\s'\"),;]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.:/@])/(?!v[12]/)(?:[^\s'\"),;:]+)")
#: Of a longer path so much is told: what lies below a folder that the operator knows.
_TOLD, _LONG = 3, 5


def without_places(text: str) -> str:
    """Return a text of the server about itself, paths cut to what is below its folders.

    Examples
    --------
    >>> without_places("The database sqlite:////var/lib/perfmodel/a.db cannot be used.")
    'The database (sqlite) cannot be used.'
    >>> without_places("/srv/models/default/1/node.json is damaged; ask GET /v1/models.")
    'default/1/node.json is damaged; ask GET /v1/models.'
    """
    text = _ADDRESS.sub(lambda found: f"({found[0].partition(':')[0]})", text)
    return _PATH.sub(lambda found: _cut(found[0]), text)


def without_own_paths(text: str) -> str:
    """Return a text about what a caller sent; only paths below folders of this server are cut.

    What a caller wrote is told back as it is, ``/v1/predict`` and ``/job/model`` among it.
    """
    folders = own_folders()
    return _PATH.sub(
        lambda found: _cut(found[0]) if found[0].startswith(folders) else found[0], text
    )


def _cut(path: str) -> str:
    parts = Path(path).parts[1:]
    return "/".join(parts[-_TOLD:] if len(parts) >= _LONG else parts[-1:])


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
