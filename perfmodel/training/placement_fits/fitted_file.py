"""Write the fitted constants of the placement floor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from perfmodel.placement import fitted as constants
from perfmodel.store.durable import write_whole


def write_fitted(part: str, document: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write the constants of one part; the old file stays until the new one is whole.

    Parameters
    ----------
    document : mapping
        ``constants``, ``source``, ``rows``, ``command`` and ``date``.
    folder : Path or None
        None: where this installation reads them.

    Returns
    -------
    Path
        The file.
    """
    where = folder or Path(str(resources.files(constants)))
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"{part}.json"
    write_whole(path, (json.dumps(document, indent=1) + "\n").encode())
    constants.forget()
    return path
