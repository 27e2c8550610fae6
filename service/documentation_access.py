"""Say in an OpenAPI document who may ask what, and what refusals look like."""

from __future__ import annotations

from typing import Any

from service.access.scopes import Door, needed
from service.errors import PROBLEM_MEDIA_TYPE

_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`perfmodel keys create`"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "basic": {"type": "http", "scheme": "basic", "description": "The key as the password"},
}
_PROBLEM = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
_REFUSALS: dict[str, Any] = {
    "401": {"description": "No key, or one that is not known", "content": _PROBLEM},
    "403": {"description": "The key lacks the scope", "content": _PROBLEM},
    "429": {"description": "Too many requests", "headers": _RETRY, "content": _PROBLEM},
}
_WRONG: dict[str, Any] = {"description": "Cannot be answered", "content": _PROBLEM}


def describe(document: dict[str, Any]) -> None:
    """Add keys, scopes and their refusals to every operation.

    Parameters
    ----------
    document : dict
        Changed in place.
    """
    document["components"]["securitySchemes"] = _SCHEMES
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _describe_operation(operation, needed(method.upper(), path))
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _describe_operation(operation: dict[str, Any], needs: str) -> None:
    responses = operation["responses"]
    # The framework describes an error of its own, which no route answers with.
    if "application/json" in responses.get("422", {}).get("content", {}):
        responses["422"] = _WRONG
    if needs == Door.OPEN:
        operation["security"] = []
        return
    # Without keys, the first: no key is needed on the loopback as long as none was made.
    operation["security"] = [{}, *({name: []} for name in _SCHEMES)]
    operation["x-scope"] = "admin" if needs == Door.UNLISTED else str(needs)
    for status, refusal in _REFUSALS.items():
        responses.setdefault(status, refusal)
