"""Which requests may be answered later, and how OpenAPI says so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: What may take long, and what it is called.
KINDS: Mapping[str, str] = MappingProxyType(
    {"/v1/jobs": "jobs", "/v1/graphs": "graphs", "/v1/matrix": "matrix"}
)

_PARAMETER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`respond-async` answers 202 at once and keeps the answer as an operation; "
    "`respond-async, wait=10` does so after 10 s.",
    "schema": {"type": "string"},
    "example": "respond-async",
}
_ACCEPTED: dict[str, Any] = {
    "description": "Kept: `Location` is the operation to ask for",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OperationEntry"}}},
}


def describe(document: dict[str, Any]) -> None:
    """Say in an OpenAPI document that some requests may be answered later."""
    for path in KINDS:
        described = document["paths"].get(path, {}).get("post")
        if described is not None:
            described.setdefault("parameters", []).append(_PARAMETER)
            described["responses"]["202"] = _ACCEPTED
