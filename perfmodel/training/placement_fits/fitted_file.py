"""What a fit of the placement floor writes: constants, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from perfmodel.placement import fitted as constants
from perfmodel.store.durable import write_whole


def document(
    part: str, constants: Mapping[str, Any], source: str, rows: int, *, model: str = ""
) -> dict[str, Any]:
    """Return the constants of a part with their source, number of rows, command and date.

    Parameters
    ----------
    model : str
        Version of the model whose errors they describe: with another one they are fitted again.
    """
    return {
        "constants": constants,
        "source": source,
        "rows": rows,
        **({"model": model} if model else {}),
        "command": f"perfmodel fit-placement --part {part}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def rounded(value: Any) -> Any:
    """Return JSON values with six significant digits."""
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write_fitted(part: str, document: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write the constants of one part; the old file stays until the new one is whole.

    Parameters
    ----------
    document : mapping
        From :func:`document`.
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
