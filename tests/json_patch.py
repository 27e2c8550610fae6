"""Apply the part of RFC 6902 that the webhook uses, strictly, as an API server does."""

from __future__ import annotations

import copy
from typing import Any


def apply(item: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an object with ``add`` operations carried out; the way to each must exist."""
    result = copy.deepcopy(item)
    for operation in operations:
        assert operation.keys() == {"op", "path", "value"}
        assert operation["op"] == "add"
        assert operation["path"].startswith("/")
        parts = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/")
        ]
        at: Any = result
        for part in parts[:-1]:
            at = at[int(part)] if isinstance(at, list) else at[part]
        assert isinstance(at, dict), "nothing to add to"
        at[parts[-1]] = operation["value"]
    return result
